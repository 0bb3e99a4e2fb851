// Package scale is how launchers are told how many replicas are wanted of a job: skerry scale asks
// the lighthouse, which tells them all. Where none is named, it calls the launcher of its host:
// skerry run listens on a Unix socket that its own user alone can reach, and passes it on.
//
// The socket is in a folder of mode 0700, $XDG_RUNTIME_DIR/skerry or skerry-UID in the folder for
// temporary files, under a name made of the job's. Of two launchers of one job on a host the
// first has it. It is HTTP: GET / says which job it is, PUT / with {"replicas": N} scales it.
package scale
