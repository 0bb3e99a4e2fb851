// Package procs finds the processes of a job on this host: which process listens at an
// address, which sockets it has, of which replica it is a rank.
//
// A process is only found if two things agree, so that no fault hits a stranger: the address
// is one of this host's and the process listens there, in this network namespace; and it
// holds a connection to one of the lighthouse's servers. A rank above 0 holds one to its
// replica's manager instead, and its environment says which it is. What has moved into another
// network namespace (a container's) is not found.
//
// A Table is what /proc said at one moment; between that and a signal a process may end and
// its id be taken by another one. So a Handle is opened first, and checked afterwards: it
// stays that process's. Only Linux has both: elsewhere nothing is found.
//
// Tables are safe for concurrent use, Handles owned by one goroutine.
package procs
