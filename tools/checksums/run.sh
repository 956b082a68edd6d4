#!/bin/sh
# checksums: finds files that changed, vanished or appeared. Keeps the SHA-256 of every file below a folder in a manifest.
#
#   llts run checksums path=/srv/photos manifest=/srv/photos.sha256
#
# The first run writes the manifest; each later run compares with it and lists what differs in report.log. Submit one task
# per folder, and as many folders as there are agents are read at a time.
# Exit code: 0 the same or the first run, 1 something differs, 2 a parameter is wrong.
set -eu

path=$(sed -n 's/^path=//p' ../task.info)
manifest=$(sed -n 's/^manifest=//p' ../task.info)
report=$PWD/report.log
now=$PWD/now.sha256

refuse() {
    printf '%s\n' "$1" >> "$report"
    exit 2
}
# A relative path would start in the folder of this task, which nobody knows beforehand.
case $path in /*) ;; *) refuse "path is not absolute: '$path'" ;; esac
case $manifest in /*) ;; *) refuse "manifest is not absolute: '$manifest'" ;; esac
[ -d "$path" ] || refuse "no such folder: $path"

# Two steps, not one pipe: a pipe would hide that find could not read a folder.
(cd "$path" && find . -type f -print0) > files
LC_ALL=C sort -z files > sorted
(cd "$path" && xargs -0 -r sha256sum --) < sorted > "$now"
count=$(tr -cd '\0' < sorted | wc -c)

if [ ! -e "$manifest" ]; then
    # Renaming makes the manifest appear whole, or not at all.
    cp "$now" "$manifest.new"
    mv "$manifest.new" "$manifest"
    printf '%s files, manifest written\n' "$count" >> "$report"
elif diff "$manifest" "$now" > changes; then
    printf '%s files, none differs\n' "$count" >> "$report"
else
    # Old lines begin with <, new ones with >; a changed file has both.
    grep '^[<>]' changes >> "$report"
    printf '%s files, some differ\n' "$count" >> "$report"
    exit 1
fi
