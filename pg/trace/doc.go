// Package trace reads the dumps that the pg.Trace of several ranks have written
// and says what is wrong between them: which rank is missing in which
// collective, where ranks called different ones, which sends and receives have
// no other side, and who dumped nothing at all.
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
