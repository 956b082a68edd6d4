#!/bin/sh
# primes: finds the least divisor of a number above 1. Loads a table of primes once, and keeps it for the next task.
#
#   llts run primes number=91
#
# number  from 2 to 100000000
#
# The value is the divisor, which is the number itself if that is a prime. Needs Python 3; primes.py holds the work. Exit code: 0, 2 the
# number is wrong.
set -eu

exec python3 primes.py
