#!/bin/sh
echo "program with data $(cat data) and input $*"
