#!/bin/sh
# One task of a rendezvous, with curl: registers its contact, waits for all others, prints the contacts of all, one a line, in the order of their ranks.
#
#     meet.sh CONTACT [RANK]      RANK is `assign` unless it is given
#     meet.sh --decode LEVEL      prints the data of all tasks in the level-n data at standard input
#
# GPC_JOB_HANDLE               where this task registers
# GPC_MULTIJOB_HANDLE          the resource above; used where the service does not register there itself
# GPC_SUBJOB_RANK              the rank of this job there
# GPC_RENDEZVOUS_TOKEN_FILE    the file that has the service's token, if it wants one
# GPC_RENDEZVOUS_CA_FILE       certificates that an https service is checked by
# MEET_SECONDS                 how long to try, 300 unless it is set
#
# Bytes that a terminal would act upon, and backslashes, are printed as \xNN.
set -eu
LC_ALL=C
export LC_ALL

fail() { printf 'meet.sh: %s\n' "$*" >&2; exit 1; }

# Level-n data to lines. A count is a decimal number without leading zero, and one space behind it; nothing may be missing or left over. awk sees numbers, since it would not keep every byte.
decode() { # LEVEL
  od -An -v -tu1 | awk -v level="$1" '
    function bad(why) { print "meet.sh: byte " at " of the data: " why >"/dev/stderr"; failed = 1; exit 1 }
    # A value of this level is whole. The one around it lacks one less, and is whole where it lacks none.
    function whole(of) {
      for (; of < level; of++) if (--left[of + 1] > 0) { depth = of; return }
      done = 1
    }
    function counted() {
      if (number == "") bad("a count is missing")
      if (depth > 0 && number > 0) left[depth--] = number + 0
      else if (depth > 0) whole(depth)
      else if (number > 0) bytes = number + 0
      else { print ""; whole(0) }
      number = ""
    }
    function take(byte) {
      at++
      if (done) bad("something follows them")
      if (bytes > 0) {
        if (byte < 32 || byte == 92 || byte == 127) printf "\\x%02x", byte; else printf "%c", byte
        if (--bytes == 0) { print ""; whole(0) }
      } else if (byte == 32) counted()
      else if (byte < 48 || byte > 57) bad("a count has digits alone")
      else if (number == "0") bad("a count begins with 0")
      else if (length(number) == 15) bad("a count is too large")
      else number = number (byte - 48)
    }
    BEGIN { depth = level; number = ""; at = 0 }
    { for (i = 1; i <= NF; i++) take($i + 0) }
    END { if (!failed && !done) { print "meet.sh: the data end too early" >"/dev/stderr"; exit 1 } }
  '
}

usage="usage: meet.sh CONTACT [RANK], or meet.sh --decode LEVEL"
[ $# -ge 1 ] && [ $# -le 2 ] || fail "$usage"
if [ "$1" = --decode ]; then
  case ${2-} in '' | *[!0-9]*) fail "$usage" ;; esac
  decode "$2"
  exit
fi

contact=$1
rank=${2:-assign}
job=${GPC_JOB_HANDLE:-${GLOBUS_GRAM_JOB_HANDLE:-}}
multijob=${GPC_MULTIJOB_HANDLE:-${GLOBUS_GRAM_MULTIJOB_HANDLE:-}}
subjob_rank=${GPC_SUBJOB_RANK:-${GLOBUS_GRAM_SUBJOB_RANK:-assign}}
[ -n "$job" ] || fail "GPC_JOB_HANDLE is not set: it says where to register"

case ${MEET_SECONDS:-300} in *[!0-9]* | ???????*) fail "MEET_SECONDS is a number from 1 to 999999" ;; esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
: >"$work/error"
until=$(($(date +%s) + ${MEET_SECONDS:-300}))

# What this task is known by when it asks again, because an answer was lost.
token=$(od -An -v -tx1 -N16 /dev/urandom | tr -d ' \n')

# Whoever sees the arguments of curl must not see the tokens.
(
  umask 077
  printf 'Registrant-Token: %s\n' "$token" >"$work/ours"
  if [ -n "${GPC_RENDEZVOUS_TOKEN_FILE:-}" ]; then
    # The last line of a file may lack its end.
    read -r service_token <"$GPC_RENDEZVOUS_TOKEN_FILE" || [ -n "${service_token-}" ] || fail "$GPC_RENDEZVOUS_TOKEN_FILE has no token"
    printf 'Authorization: Bearer %s\n' "$service_token" >>"$work/ours"
  fi
)

# Asks until there is an answer: its status is in $status, its body in $work/body, its level in $level. The same token makes it safe to ask again.
ask() { # URL [OPTIONS OF CURL]
  while :; do
    [ "$(date +%s)" -lt "$until" ] || fail "there was no completion within ${MEET_SECONDS:-300} s; the last failure: $(cat "$work/error")"
    failed=0
    curl --silent --show-error --globoff --noproxy '*' --connect-timeout 10 --max-time 60 \
      --header @"$work/ours" ${GPC_RENDEZVOUS_CA_FILE:+--cacert "$GPC_RENDEZVOUS_CA_FILE"} \
      --dump-header "$work/head" --output "$work/body" --write-out '%{http_code}' \
      "$@" >"$work/status" 2>"$work/error" || failed=$?
    # By these two curl says that the certificate is not to be trusted.
    case $failed in 60 | 77) fail "$(cat "$work/error")" ;; esac
    if [ "$failed" = 0 ]; then
      status=$(cat "$work/status")
      level=$(awk 'tolower($1) == "rendezvous-level:" { print $2 + 0 }' "$work/head")
      # A service that is full or is ending says 503.
      [ "$status" = 503 ] || return 0
    fi
    sleep 1
  done
}

# What the service says of a failure, without what a terminal would act upon.
refused() { fail "status $status: $(head -c 600 "$work/body" | tr -cd '[:print:]')"; }

# Waits until the rendezvous is complete; its data are in $work/data then, their level in $level. Registers a file of data before, if there is one, and again each time: that keeps the registration, and brings it back if this task was silent for longer than its lease.
meet() { # HANDLE RANK [FILE]
  case $1 in
  http://*\?* | https://*\?*) resource=${1%%\?*}/${1#*\?} ;;
  *) fail "a handle is http://HOST:PORT/PATH?ID" ;;
  esac
  while :; do
    if [ -n "${3-}" ]; then
      ask "$resource/registrants?rank=$2&lease=60" --data-binary @"$3" --header 'Content-Type: application/octet-stream' --header 'Expect:'
      [ "$status" = 201 ] || refused
      rank=$(sed -n 's/.*"rank": *\([0-9]*\).*/\1/p' "$work/body")
    fi
    ask "$resource/completion?of=top&wait=20"
    case $status in
    200) mv "$work/body" "$work/data" && return ;;
    204) ;;
    *) refused ;;
    esac
  done
}

printf '%s' "$contact" >"$work/contact"
meet "$job" "$rank" "$work/contact"
if [ -n "$multijob" ] && [ "$level" = 1 ]; then
  # The service does not register above: the task of rank 0 is the controlling task.
  cp "$work/data" "$work/unit"
  if [ "$rank" = 0 ]; then meet "$multijob" "$subjob_rank" "$work/unit"; else meet "$multijob" 0; fi
fi
decode "$level" <"$work/data" >"$work/contacts"
cat "$work/contacts"
