#!/bin/sh
# helloworld: greets the parameter `name`, or the world. The smallest tool, and the pattern of every other one.
#
#   llts run helloworld name=Ada
#
# LLTS starts run.sh inside the unpacked tool. The parameters stand in ../task.info, one key=value a line; what is
# appended to report.log comes back to the submitter.
set -eu

name=$(sed -n 's/^name=//p' ../task.info)
printf 'hello, %s\n' "${name:-world}" >> report.log
