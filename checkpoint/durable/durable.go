package durable

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/checkpoint/safetensors"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/monitor"
	"github.com/skerry-ft/skerry/quorum"
)

// ErrStopped is returned by Save, AfterStep and Flush once Run has ended.
var ErrStopped = errors.New("durable: Run has ended")

// Checkpointer writes and reads one rank's part of a run's checkpoints; see the package
// comment. Run has a goroutine of its own. Everything else belongs to the trainer's.
type Checkpointer struct {
	cfg   Config
	log   zerolog.Logger
	parts []part
	had   []string // the tensors of the newest copy, or of what was loaded, in order
	stage staging  // Run's while there is a snapshot, else the trainer's

	mu struct {
		monitor.Monitor

		snapshot *snapshot       // waits to be written, or is being written; nil: none
		last     quorum.Position // of the newest that is written, or about to be, or was loaded
		err      error           // of the newest write
		damaged  map[title]bool  // finished ones that Find has passed over
		running  bool
		ended    bool // Run was, and is not
	}
}

// New checks cfg, and returns all problems, joined. It reads and writes nothing.
func New(cfg Config) (*Checkpointer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("durable: %w", err)
	}
	cfg = cfg.withDefaults()
	c := &Checkpointer{cfg: cfg}
	c.mu.damaged = make(map[title]bool)
	c.log = cfg.Log.With().Str(logkey.Component, "durable").Int(logkey.GroupRank, cfg.GroupRank).Logger()
	return c, nil
}

// shard is this rank's.
func (c *Checkpointer) shard() shard { return shard{rank: c.cfg.GroupRank, size: c.cfg.GroupWorldSize} }

// Run writes what AfterStep and Save copy, until ctx ends. Then it leaves a write that
// is under way unfinished, and returns nil.
func (c *Checkpointer) Run(ctx context.Context) error {
	c.mu.Lock()
	if c.mu.running {
		c.mu.Unlock()
		return errors.New("durable: Run runs already")
	}
	c.mu.running, c.mu.ended = true, false
	c.mu.Unlock()
	defer c.end(ctx)
	for {
		var s *snapshot
		if c.mu.Await(ctx, 0, func() bool { s = c.mu.snapshot; return s != nil }) != nil {
			return nil
		}
		c.done(c.writeAndPrune(ctx, s))
		if ctx.Err() != nil {
			return nil
		}
	}
}

// done lets the next copy be made: of the same position too, if this one was not written.
func (c *Checkpointer) done(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.snapshot, c.mu.err = nil, err
	if err != nil {
		c.mu.last = quorum.Position{}
	}
	c.mu.Broadcast()
}

// has says whether a position is written, or about to be, or was loaded.
func (c *Checkpointer) has(at quorum.Position) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return at == c.mu.last
}

// end lets all that wait know that nothing will be written.
func (c *Checkpointer) end(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.running, c.mu.ended = false, true
	if c.mu.snapshot != nil {
		c.mu.snapshot, c.mu.err, c.mu.last = nil, context.Cause(ctx), quorum.Position{}
	}
	c.mu.Broadcast()
}

// AfterStep saves if it is this replica's turn at this step (Config.Every, Config.Writers),
// and this position has not been saved: the writing is left to Run. Call it after every
// ShouldCommit, once the optimizer has stepped, and before the next StartQuorum. It
// blocks for the copy of the state, and with Config.WaitBusy until the write before is
// done.
//
// Errors: of the trainer's state, which no file can hold; ErrStopped; ctx's cause. What
// happens to the write is an Event, and so is a state that is not there: absent, without
// tensors that it had, or overwritten in part by a heal in place.
func (c *Checkpointer) AfterStep(ctx context.Context, p Progress) error {
	at := p.Position()
	switch {
	case c.cfg.Every == 0 || at.Step == 0 || at.Step%c.cfg.Every != 0 || c.has(at):
		return nil
	case c.cfg.Writers == OneWriter && p.ParticipantRank() != 0:
		return nil
	}
	return c.save(ctx, p, c.cfg.WaitBusy)
}

// Save saves now, whatever the step and the replica, unless this position has been
// saved or loaded, or is being written: for the end of training, or on a signal. Call it
// where AfterStep may be called, in all ranks of a replica. It waits for the write before
// it. If a write of this position has failed, it is made again. Errors: as AfterStep's.
func (c *Checkpointer) Save(ctx context.Context, p Progress) error {
	if at := p.Position(); at.Step == 0 || c.has(at) {
		return nil
	}
	return c.save(ctx, p, true)
}

func (c *Checkpointer) save(ctx context.Context, p Progress, wait bool) error {
	writing, err := c.idle(ctx, wait)
	if err != nil {
		return fmt.Errorf("durable: save: %w", err)
	}
	if writing != nil {
		c.tell(SaveSkipped{Position: p.Position(), Writing: writing.manifest.position})
		return nil
	}
	began := time.Now()
	s, err := c.snapshot(p)
	if errors.Is(err, safetensors.ErrAbsent) {
		c.absent(p, err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("durable: save: %w", err)
	}
	s.copied = time.Since(began)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.snapshot, c.mu.last = s, s.manifest.position
	c.mu.Broadcast()
	return nil
}

// absent tells of a save for which there was no state, as of a write that has failed.
func (c *Checkpointer) absent(p Progress, err error) {
	at := p.Position()
	t := titleOf(at, p.ReplicaID())
	err = fmt.Errorf("copy checkpoint %s: %w", t, err)
	c.done(err)
	c.tell(SaveFailed{Position: at, Name: t.String(), Err: err})
}

// idle returns nil when nothing is being written, or else what is, unless it waits.
func (c *Checkpointer) idle(ctx context.Context, wait bool) (writing *snapshot, err error) {
	err = c.mu.Await(ctx, 0, func() bool {
		writing = c.mu.snapshot
		return c.mu.ended || writing == nil || !wait
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && c.mu.ended {
		err = ErrStopped
	}
	return writing, err
}

// Flush waits until nothing is being written, and returns the error of the newest
// write. Run must run meanwhile. Errors: ErrStopped, joined with what ended the
// write; ctx's cause.
func (c *Checkpointer) Flush(ctx context.Context) error {
	if _, err := c.idle(ctx, true); err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		return errors.Join(err, c.mu.err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.err
}

// tell logs an event, and passes it on.
func (c *Checkpointer) tell(e Event) {
	switch e := e.(type) {
	case Saved:
		c.log.Info().Int64(logkey.Step, e.Position.Step).Int64(logkey.Bytes, e.SizeBytes).
			Dur(logkey.ElapsedMs, e.Wrote).Msg("checkpoint written")
	case SaveFailed:
		c.log.Error().Int64(logkey.Step, e.Position.Step).Err(e.Err).Msg("checkpoint not written")
	case SaveSkipped:
		c.log.Warn().Int64(logkey.Step, e.Position.Step).Msg("checkpoint skipped")
	case PruneFailed:
		c.log.Warn().Err(e.Err).Msg("old checkpoints not deleted")
	}
	if c.cfg.OnEvent != nil {
		c.cfg.OnEvent(e)
	}
}
