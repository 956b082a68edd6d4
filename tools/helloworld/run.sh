#!/bin/sh
# helloworld: greets the parameter `name`, or the world. The smallest tool, and the pattern of every other one.
#
#   llts run helloworld name=Ada
#
# LLTS starts run.sh inside the unpacked tool. Each parameter is in the environment as PARAM_<key>, and a line key=value of
# ../task.info; what is appended to report.log comes back to the submitter. The shell alone does this: each program that a
# run.sh starts costs a millisecond or more.
set -eu

printf 'hello, %s\n' "${PARAM_name:-world}" >> report.log
