// Package trace is a flight recorder for groups, and reads what it has written.
//
// A [Recorder] is a decorator that remembers the last ops of one rank, and dumps them when
// the group breaks; [Files] writes dumps to files:
//
//	r := trace.NewRecorder(backend, trace.Config{Group: "dp", Dump: trace.Files("/var/log/skerry-")})
//	g := pg.NewGroup(r)
//
// [Analyse] says what is wrong between the dumps of several ranks: which rank is missing in
// which collective, where ranks called different ones, which sends and receives have
// no other side, and which rank dumped nothing at all. So does "skerry trace":
//
//	dumps, err := trace.ReadFiles(names)
//	for _, g := range trace.Analyse(dumps) {
//		err = g.WriteText(os.Stdout)
//	}
//
// Dumps belong together if they are of one group and one epoch. Only the ops of
// that epoch count. Collectives are matched by their place in it, which every
// rank counts for itself.
package trace
