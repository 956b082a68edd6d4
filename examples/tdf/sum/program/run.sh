#!/bin/sh
# Prints the sum of its arguments.
sum=0
for number; do sum=$((sum + number)); done
echo "$sum"
