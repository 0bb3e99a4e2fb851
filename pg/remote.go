package pg

import "strings"

// RemoteError is an error of another process: the text that it had there, and the errors
// that it is here.
type RemoteError struct {
	text string
	are  []error
}

// NewRemoteError makes the error with a text that came from the other process, which the
// caller has bounded. errors.Is finds each of are, and what those wrap.
func NewRemoteError(text string, are ...error) *RemoteError {
	return &RemoteError{text: strings.ToValidUTF8(text, "?"), are: are}
}

// Error is the text.
func (e *RemoteError) Error() string { return e.text }

// Unwrap gives what it is.
func (e *RemoteError) Unwrap() []error { return e.are }
