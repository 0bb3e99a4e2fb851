package store

// The locks are those of open file descriptions, not of processes: two stores
// in one process exclude each other, and closing one does not release the
// other's. They lie far behind the data, and end with the process.
const (
	lockAccess   int64 = 1 << 62      // shared to read, exclusive to write
	lockPresence int64 = 1<<62 + 1<<8 // shared by everybody who has the file open
)
