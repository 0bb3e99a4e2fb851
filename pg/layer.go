package pg

import "context"

// Layer is what every decorator has: the backend below, and what passed through
// Configure. A decorator embeds one, and has methods of its own for what it does
// otherwise; at least Submit. Safe for concurrent use, as every Backend is.
type Layer struct {
	backend Backend
	track   tracker
}

// NewLayer is the Layer of a decorator around b, which it owns from now on.
func NewLayer(b Backend) *Layer { return &Layer{backend: b} }

// Name is that of the backend.
func (l *Layer) Name() string { return l.backend.Name() }

// Unwrap is the backend.
func (l *Layer) Unwrap() Backend { return l.backend }

// SetRound passes the round on, if the backend knows rounds.
func (l *Layer) SetRound(round int64) { setRound(l.backend, round) }

// Config is that of the backend below.
func (l *Layer) Config() (Config, bool) { return configOf(l.backend, &l.track) }

// Configure configures the backend.
func (l *Layer) Configure(ctx context.Context, c Config) error {
	return l.track.configure(ctx, l.backend, c)
}

// Abort aborts the backend.
func (l *Layer) Abort(e Epoch, cause error) { l.backend.Abort(e, cause) }

// Err is the backend's.
func (l *Layer) Err() error { return l.backend.Err() }

// Close closes the backend.
func (l *Layer) Close() error { return l.backend.Close() }

func (l *Layer) tracked() *tracker { return &l.track }

func (l *Layer) epochs() (current, next Epoch) { return epochsOf(l.backend, &l.track) }
