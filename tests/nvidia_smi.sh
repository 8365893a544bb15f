#!/bin/sh
# Stands in for nvidia-smi, as its manual describes it. $SMI is a folder:
#   fields          the fields that it knows, one a line; others are refused as the real one refuses them
#   gpu.0 gpu.1 ..  what a GPU answers, `field value` a line; what is missing is [N/A]
#   apps            rows of --query-compute-apps        pmon, dmon   what these print
#   says            printed instead of anything, with exit status 9
#   starts          a line is added for each run        ends         a loop ends when it is there
echo "$*" >>"$SMI/starts"
if test -f "$SMI/says"; then
  cat "$SMI/says"
  exit 9
fi
every=
for word; do
  case $word in
  --query-gpu=*) query=${word#*=} ;;
  --query-compute-apps=*) exec cat "$SMI/apps" ;;
  pmon | dmon) exec cat "$SMI/$word" ;;
  -lms) every=next ;;
  *) test "$every" = next && every=$word ;;
  esac
done
list=$(printf %s "$query" | tr , ' ')
for field in $list; do
  if ! grep -qxF "$field" "$SMI/fields"; then
    echo "Field \"$field\" is not a valid field to query."
    exit 2
  fi
done
while :; do
  for gpu in "$SMI"/gpu.*; do
    awk -v list="$list" '{ name = $1; sub(/^[^ ]+ /, ""); said[name] = $0 }
      END { n = split(list, names, " ")
            for (i = 1; i <= n; i++) printf "%s%s", (i > 1 ? ", " : ""), ((names[i] in said) ? said[names[i]] : "[N/A]")
            print "" }' "$gpu"
  done
  test -n "$every" || exit 0
  if test -f "$SMI/ends"; then
    rm "$SMI/ends"
    echo "Unable to determine the device handle for GPU0000:C3:00.0: GPU is lost. Reboot the system to recover this GPU"
    exit 15
  fi
  sleep 0.05
done
