#!/usr/bin/env bash
# Say in one issue what the weekly run found: open it, renew it, or close it when nothing is broken.
#
#     RUN=https://… weekly.sh success|failure LOGS      LOGS/<job>/<job>.log: of the jobs that failed
set -euo pipefail

title="The weekly run: something broke"
number=$(gh issue list --state open --limit 500 --json number,title \
  --jq "[.[] | select(.title == \"$title\")][0].number // empty")

if [ "$1" = success ]; then
  if [ -n "$number" ]; then gh issue close "$number" --comment "Nothing is broken any more: $RUN"; fi
  exit 0
fi

body=$(mktemp)
{
  echo "Found by $RUN, and renewed every week until nothing is broken. The last lines of each job that failed:"
  for log in "$2"/*/*.log; do
    [ -e "$log" ] || continue
    printf '\n### %s\n\n````text\n' "$(basename "$log" .log)"
    tail -n 30 "$log" | cut -c 1-160
    printf '````\n'
  done
} > "$body"

if [ -n "$number" ]; then
  gh issue edit "$number" --body-file "$body"
else
  gh issue create --title "$title" --body-file "$body"
fi
