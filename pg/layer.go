package pg

import "context"

// layer is what every decorator has: the backend below, and what passed through
// Configure. A decorator embeds it, and has methods of its own for what it does
// otherwise.
type layer struct {
	backend Backend
	track   tracker
}

// Name is that of the backend.
func (l *layer) Name() string { return l.backend.Name() }

// Unwrap is the backend.
func (l *layer) Unwrap() Backend { return l.backend }

// SetRound passes the round on, if the backend knows rounds.
func (l *layer) SetRound(round int64) { setRound(l.backend, round) }

// Config is that of the backend below.
func (l *layer) Config() (Config, bool) { return configOf(l.backend, &l.track) }

// Configure configures the backend.
func (l *layer) Configure(ctx context.Context, c Config) error {
	return l.track.configure(ctx, l.backend, c)
}

// Abort aborts the backend.
func (l *layer) Abort(e Epoch, cause error) { l.backend.Abort(e, cause) }

// Err is the backend's.
func (l *layer) Err() error { return l.backend.Err() }

// Close closes the backend.
func (l *layer) Close() error { return l.backend.Close() }

func (l *layer) tracked() *tracker { return &l.track }

func (l *layer) epochs() (current, next Epoch) { return epochsOf(l.backend, &l.track) }
