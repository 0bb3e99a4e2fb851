// Package scale is how a launcher that runs is told how many replicas are wanted: skerry run
// listens on a Unix socket that its own user alone can reach, and skerry scale calls there.
//
// The socket is in a folder of mode 0700, $XDG_RUNTIME_DIR/skerry or skerry-UID in the folder for
// temporary files, under a name made of the job's. Of two launchers of one job on a host the
// first has it. It is HTTP: GET / says which job it is, PUT / with {"replicas": N} scales it.
package scale
