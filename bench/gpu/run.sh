#!/usr/bin/env bash
# Runs on a machine with a card, without Rust: the tests of the card, then the figures.
#
#   ./run.sh [OUT]      OUT is where results go (default: results beside this script)
#
#   RUN_TESTS=0         no tests
#   SOAK=10000000       frames through the kernel that stays, in each of its tests (default 200000);
#                       what became of them goes to OUT/soak.json, and to OUT/tests.txt what came
#                       before the first slow ones
#   LATENCY=0           no times of frames
#   AGREE=12            first so many rounds of a million packets a set, compared with the cores
#   FRAMES=100K         frames that are timed, for each figure
#   SANITIZE=1          the tests once more under compute-sanitizer, tool by tool (minutes)
#   SETS='acl1_1k …'    only these sets of data/
#   ENGINES=turbo       kernels, separated by commas (default: all)
#   BATCH=8K,1M         batches (default: 8K,64K,256K,1M; of routes 4M, too)
#   RUN_MS=20 RUNS=5    how long and how often each figure is taken
#   THREADS=1 SLOTS=8   threads that send batches off, and how many are under way
#   UPDATES=100K,1M,max changes a second beside lookups, for the sets of 100K rules and for routes
#                       (empty: none)
#   LOOKUPS=0           of the sets of rules only changes
#   ROUTES=0            no lookups of routes
#   RULES=0             no figures of rules
#
# Tables of routes are the files in data/routes/, or two of full size that are generated. Sets are
# the files in data/, and some that are generated here: IPv6, and GSwitch's own case.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/results}
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export WARPSWITCH_CACHE=${WARPSWITCH_CACHE:-$work/kernels} WARPSWITCH_NEED_CARD=1
warpswitch=$here/warpswitch

"$warpswitch" devices --json > "$out/devices.json"
"$warpswitch" devices

if [ "${RUN_TESTS:-1}" = 1 ]; then
	export WARPSWITCH_SOAK_FRAMES=${SOAK:-200000}
	"$here/card-tests" --test-threads 6 --skip frame 2>&1 | tee "$out/tests.txt" |
		grep -v '\.\.\. ok$'
	# Frames have deadlines: nothing else runs beside them.
	"$here/card-tests" --test-threads 1 --nocapture frame 2>&1 | tee -a "$out/tests.txt"
	grep -o '{"soak".*}' "$out/tests.txt" > "$out/soak.json"
fi
if [ "${SANITIZE:-0}" = 1 ]; then
	for tool in memcheck racecheck initcheck synccheck; do
		echo "== compute-sanitizer $tool"
		: > "$out/$tool.txt"
		for tests in every_way_and_length answers_beyond; do
			compute-sanitizer --tool "$tool" --error-exitcode 9 \
				"$here/card-tests" --test-threads 1 "$tests" \
				2>&1 | tee -a "$out/$tool.txt" | tail -4
		done
	done
fi

# Appends a file with a line of names to one that may have it already.
append() {
	if [ -s "$2" ]; then tail -n +2 "$1"; else cat "$1"; fi >> "$2"
}

# Frames one at a time, before anything else warms the machine up; then several under way, and
# large ones.
if [ "${LATENCY:-1}" = 1 ]; then
	latency=$out/$(date -u +%F)-latency.csv
	: > "$latency"
	for way in '256 1' '256 4' '1024 1' '1024 4'; do
		read -r frame under_way <<< "$way"
		"$warpswitch" bench gpu --latency --frame "$frame" --under-way "$under_way" --csv \
			--frames "${FRAMES:-100K}" --hash-seed 1 > "$work/one.csv"
		append "$work/one.csv" "$latency"
	done
	echo "times of frames in $latency"
fi

# Routes of one table: lookups, whole headers if it is IPv4, then changes beside them.
routes() {
	local name
	name=$(basename "$1" .gz)
	cd "$(dirname "$1")"
	"$warpswitch" bench routes --routes "$(basename "$1")" --csv \
		--batch "${BATCH:-8K,64K,256K,1M,4M}" --run-ms "${RUN_MS:-20}" \
		--runs "${RUNS:-5}" --threads "${THREADS:-1}" --slots "${SLOTS:-8}" \
		> "$work/one.csv" || return 1
	append "$work/one.csv" "$lookups"
	if ! grep -q ,ipv6, "$work/one.csv"; then
		"$warpswitch" bench routes --routes "$(basename "$1")" --csv --headers \
			--batch "${BATCH:-8K,64K,256K,1M}" --run-ms "${RUN_MS:-20}" \
			--runs "${RUNS:-5}" --threads "${THREADS:-1}" --slots "${SLOTS:-8}" \
			> "$work/more.csv" || return 1
		append "$work/more.csv" "$lookups"
		tail -n +2 "$work/more.csv" >> "$work/one.csv"
	fi
	echo "-- $name"
	grep -v '^table' "$work/one.csv" | cut -d, -f4-7,10 || true
	if [ -z "${UPDATES-100K,1M,max}" ]; then
		return 0
	fi
	"$warpswitch" bench routes --routes "$(basename "$1")" --csv \
		--updates "${UPDATES-100K,1M,max}" --batch 64K,1M --run-ms "${RUN_MS:-100}" \
		--runs 5 --slots 4 > "$work/more.csv" || return 1
	append "$work/more.csv" "$changes"
}
if [ "${ROUTES:-1}" = 1 ]; then
	lookups=$out/$(date -u +%F)-routes.csv
	changes=$out/$(date -u +%F)-routes-updates.csv
	: > "$lookups"
	: > "$changes"
	tables=$here/data/routes
	if [ ! -d "$tables" ]; then
		tables=$work/routes
		mkdir "$tables"
		"$warpswitch" generate routes --count 900K --out "$tables/ipv4_900k.routes"
		"$warpswitch" generate routes --family ipv6 --count 160K \
			--out "$tables/ipv6_160k.routes"
	fi
	failed=()
	for table in "$tables"/*; do
		(routes "$table") || failed+=("$(basename "$table")")
	done
	if [ ${#failed[@]} -gt 0 ]; then
		echo "run.sh: no figures of ${failed[*]}" >&2
		exit 1
	fi
	echo "figures of routes in $lookups"
fi
if [ "${RULES:-1}" = 0 ]; then
	exit 0
fi

# The generated sets beside those of data/.
sets=$work/sets
mkdir "$sets"
# generate NAME OPTIONS…: makes a set if it is wanted.
generate() {
	case " ${SETS:-$1} " in
	*" $1 "*) "$warpswitch" generate rules "${@:2}" --out "$sets/$1.rules" ;;
	esac
}
for style in acl fw ipc; do
	generate "${style}_ipv6_10k" --style $style --family ipv6 --count 10K
done
generate gswitch_128k --synthetic N=128K,C=512,F=512,Cm=1,fields=12
generate acl_1m --style acl --count 1M
for set in "$here"/data/*.rules*; do
	[ -e "$set" ] && cp "$set" "$sets/"
done

# Every engine on every set, with changes of rules in between, against the cores.
agree() {
	local failed=()
	: > "$out/agreement.json"
	for set in "$sets"/*; do
		local name
		name=$(basename "$set" .gz)
		gzip -dcf "$set" > "$work/$name"
		local engines=linear,tuple,bloom,maskhash,turbo
		# With many rules each group of changes is a large image of linear.
		case $name in *_1k*) ;; *) engines=tuple,bloom,maskhash,turbo ;; esac
		(cd "$work" && "$warpswitch" bench gpu --rules "$name" --agree "$AGREE" --json \
			--engines $engines) >> "$out/agreement.json" || failed+=("$name")
		rm "$work/$name"
	done
	awk '/"lookups"/ { sum += $2 } END { printf "%d lookups agree\n", sum }' \
		"$out/agreement.json"
	if [ ${#failed[@]} -gt 0 ]; then
		echo "run.sh: no agreement on ${failed[*]}" >&2
		return 1
	fi
}
if [ -n "${AGREE:-}" ]; then
	agree
fi

csv=$out/$(date -u +%F).csv
updates=$out/$(date -u +%F)-updates.csv
# What another run of the day has taken stays, unless this one takes it again.
if [ "${LOOKUPS:-1}" = 1 ]; then : > "$csv"; fi
if [ -n "${UPDATES-100K,1M,max}" ]; then : > "$updates"; fi
for set in "$sets"/*; do
	name=$(basename "$set" .gz)
	name=${name%.rules}
	case " ${SETS:-$name} " in *" $name "*) ;; *) continue ;; esac
	cp "$set" "$work/$name"
	case $set in *.gz) gzip -dc "$set" > "$work/$name" ;; esac
	: > "$work/one.csv"
	if [ "${LOOKUPS:-1}" = 1 ]; then
		(cd "$work" && "$warpswitch" bench gpu --rules "$name" --csv --hash-seed 1 \
			--batch "${BATCH:-8K,64K,256K,1M}" --run-ms "${RUN_MS:-20}" \
			--runs "${RUNS:-5}" --threads "${THREADS:-1}" --slots "${SLOTS:-8}" \
			${ENGINES:+--engines "$ENGINES"}) > "$work/one.csv" ||
			echo "# $name failed" >> "$csv"
		append "$work/one.csv" "$csv"
	fi
	if [[ $name = *_100k && -n ${UPDATES-100K,1M,max} ]]; then
		(cd "$work" && "$warpswitch" bench gpu --rules "$name" --csv --hash-seed 1 \
			--updates "${UPDATES-100K,1M,max}" --batch 8K,64K,256K --run-ms 100 \
			--runs 5 --slots 4 --check engines) > "$work/more.csv" ||
			echo "# $name failed" >> "$updates"
		append "$work/more.csv" "$updates"
	fi
	rm "$work/$name"
	echo "-- $name"
	grep -v '^ruleset' "$work/one.csv" | cut -d, -f4-9 || true
done
echo "figures in $csv and $updates"
