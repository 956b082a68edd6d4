#!/bin/sh
exec node tool.mjs
