// Package session keeps a replica's stream to the lighthouse open, on whichever
// server answers: it finds the leader, leaves a server that has fallen silent for
// another one, sends beats, and passes notices on.
//
// A [Session] restates on every new stream what a new leader must know: the last
// answer, the accusations, the links that are cut, and the join that waits. So a
// change of leader loses none of them: a Join goes on waiting, and the new leader answers
// it; no call returns an error for it, or has to be made again. What its caller can notice
// is Config.Lost and then Config.Found, the count of reconnects, and the time that it took.
//
// It knows nothing of ranks, steps or groups: what it sends and what it passes on are
// values of package quorum.
//
//	session.go  the life of a session: connect, serve, pause, again; join, accuse, leave
//	stream.go   one stream: hello, welcome, what is written and read
//	servers.go  which server is tried next, and for how long
//	dial.go     two servers dialled, one beside the other
//	silence.go  when a silent server is left
//
// Run owns all goroutines, and has waited for each of them when it returns. Nothing is
// called out to with the lock held.
package session
