# Provenance of the rows that scripts write: commit of the program, machine and date. Scripts that
# measure read this file; it needs `warpswitch`, the program, and `device`, gpu or host.

provenance_columns=commit,machine,date
provenance=$("$warpswitch" --version | sed -n 's/.*(commit \(.*\)).*/\1/p')
if [ "${device:-gpu}" = gpu ]; then
	provenance+=,$("$warpswitch" devices --json |
		sed -n 's/^ *"name": "\(.*\)",*$/\1/p' | head -1)
else
	provenance+=,$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -1 | tr , ' ')
fi
provenance+=,$(date -u +%F)

# stamped: adds the provenance to rows.
stamped() { sed "s/\$/,${provenance//\//\\/}/"; }
