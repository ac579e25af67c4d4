#!/bin/sh
# A tour of jobtap in one instance. From the root of the checkout:
#
#     cargo run -p site-manager -- start examples/quickstart.sh
#
# The manager is examples/site-manager: the builtins without Lua, and examples/deadline, an example of a site's own
# plugin, which decides which job starts first.
set -eu

# Titles and commands stand out on a terminal, and are plain text in a file.
bold='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR-}" ]; then
    bold=$(printf '\033[1m') plain=$(printf '\033[0m')
fi
say() { printf '\n%s== %s%s\n' "$bold" "$*" "$plain"; }
# Shows a command as a user would type it, and runs it.
show() {
    printf '%s$' "$bold"
    for word; do
        case $word in
        *[\ \{\$\"]*) printf " '%s'" "$word" ;;
        *) printf ' %s' "$word" ;;
        esac
    done
    printf '%s\n' "$plain"
    "$@"
}

# Each of the ordered jobs requests all cores, so that they run one after the other.
cores=$(nproc)

say "The plugins of this manager, in the order in which they are called"
show jobtap plugin list -a

say "Ten jobs that succeed"
hello=$(jobtap submit --cc=1-10 --job-name='hello-{cc}' sh -c 'echo "hello from job {cc}"')
echo "$hello" | tr '\n' ' '

say "A job that fails, and a job that is canceled while it runs"
failing=$(jobtap submit --job-name=fails sh -c 'echo "no such input" >&2; exit 3')
endless=$(jobtap submit --job-name=endless sleep 600)
jobtap job wait-event -q "$endless" start
jobtap cancel --message="not needed any more" "$endless"
echo "$failing $endless"

say "A job that waits until another one has succeeded"
first=$(jobtap submit --job-name=prepare sleep 0.3)
second=$(jobtap submit --job-name=compute --dependency=afterok:"$first" echo "prepared, computed")
show jobtap job why "$second"

say "Two tasks of one job, attached"
show jobtap run -n 2 -l sh -c 'echo "I am task $JOBTAP_TASK_RANK of $JOBTAP_JOB_SIZE"'

say "The plugin decides: earliest deadline first, and a step of urgency is worth an hour"
jobtap queue stop >/dev/null
now=$(date +%s)
ordered() { jobtap submit -c "$cores" --job-name="$1" "$2" "$3" sleep 0.05; }
a=$(ordered due-in-3h --setattr=deadline=$((now + 3 * 3600)) --urgency=default)
b=$(ordered due-in-1h --setattr=deadline=$((now + 3600)) --urgency=default)
c=$(ordered due-in-2h --setattr=deadline=$((now + 2 * 3600)) --urgency=default)
d=$(ordered due-in-3h-urgent --setattr=deadline=$((now + 3 * 3600)) --urgency=19)
e=$(ordered no-deadline --setattr=project=tour --urgency=default)
f=$(ordered no-deadline-urgent --setattr=project=tour --urgency=30)
jobtap queue start >/dev/null
for job in $hello "$failing" "$endless" "$first" "$second" "$a" "$b" "$c" "$d" "$e" "$f"; do
    jobtap job wait-event -q "$job" clean
done
show jobtap jobs --sort=t_run -o '{name:<20} {urgency:>3} {priority:>10}' "$a" "$b" "$c" "$d" "$e" "$f"

say "All jobs"
show jobtap jobs -a

say "The eventlog of one of them, and its output"
show jobtap job eventlog -H "$second"
show jobtap job attach "$second"

say "What the plugin did, in calls and times"
show jobtap plugin stats deadline

say "Next"
cat <<'END'
  target/debug/site-manager start   a shell in an instance of your own: jobtap submit, jobs, job why, ...
  cargo build                       the plain manager, target/debug/jobtap, with all commands: top, bench, build, ...
  target/debug/jobtap new plugin my-plugin
                                    a plugin of your own, with its test
  docs/src/a-day.md                 a day's work, from the configuration to the accounting
END
