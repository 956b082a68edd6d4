#!/bin/sh
# Build the tool before it is packed: go build -o tool tool.go
exec ./tool
