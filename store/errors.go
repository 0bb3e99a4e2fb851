package store

import "errors"

// The sentinels of this package, one per decision the caller can take. A
// timeout is none of them: it satisfies
// errors.Is(err, context.DeadlineExceeded).
var (
	// ErrClosed is returned by calls on a store that was closed, or whose
	// server went away or ended the connection. Give the store up; what was in
	// it may be gone.
	ErrClosed = errors.New("store: closed")
	// ErrNotNumber is returned by Add when the value under the key is not a
	// decimal number, or the sum leaves the range of int64, or, with StrictAdd,
	// the key was set. Nothing is changed.
	ErrNotNumber = errors.New("store: not a number")
	// ErrEmpty is returned by Pop, without block, on a queue that has nothing.
	ErrEmpty = errors.New("store: queue is empty")
	// ErrTooLarge is returned for a key, a value or a list of keys over its
	// bound, and for a value that does not fit into the store any more.
	ErrTooLarge = errors.New("store: too large")
	// ErrUnauthorized is returned by Dial and Open when the server does not
	// accept the token, or asks for one and there is none.
	ErrUnauthorized = errors.New("store: token refused")
	// ErrTLS is returned by Dial and Open, and by calls that need a new connection,
	// when one side speaks TLS and the other does not, or one does not take the
	// other's certificate. Nothing was said; set what the error names.
	ErrTLS = errors.New("store: no TLS connection")
	// ErrUsedFile is returned by NewFile for a file that another run has left
	// behind. Remove it, or name another one.
	ErrUsedFile = errors.New("store: file was used before")
	// ErrUnsupported is returned for a verb that the server does not know:
	// DeletePrefix on PyTorch's own server.
	ErrUnsupported = errors.New("store: not supported by this server")
)
