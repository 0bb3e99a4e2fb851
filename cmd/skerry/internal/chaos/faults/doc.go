// Package faults does to this host what lasts a while and must end whatever happens: it stops
// a process, and fills a folder.
//
// A process that is stopped is continued by a keeper: a process of its own, this binary once
// more, that outlives the one that asked for the stop. It continues the process when its time
// is over, when it is told to, and when its parent ends, however that ends. After a
// SIGKILL to the keeper as well, the process stays stopped until kill -CONT.
//
// A folder is filled by a file that has no name from the beginning: the kernel frees it with
// the process that holds it open.
//
// Stopped and Full are owned by one goroutine. No goroutine is started here, but in the keeper.
package faults
