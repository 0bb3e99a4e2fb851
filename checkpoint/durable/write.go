package durable

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/checkpoint/safetensors"
	"github.com/skerry-ft/skerry/internal/failpoint"
)

// errTooLong ends a write after Config.WriteTimeout.
var errTooLong = fmt.Errorf("longer than WriteTimeout: %w", context.DeadlineExceeded)

// writeAndPrune writes a snapshot, deletes what is older than what is kept, and tells
// how that went.
func (c *Checkpointer) writeAndPrune(ctx context.Context, s *snapshot) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.WriteTimeout, errTooLong)
	defer cancel()
	failpoint.At(ctx, failpoint.CheckpointBefore)
	began := time.Now()
	if err := c.write(ctx, s); err != nil {
		err = fmt.Errorf("write checkpoint %s: %w", s.title, err)
		c.tell(SaveFailed{Position: s.manifest.position, Name: s.title.String(), Err: err})
		return err
	}
	failpoint.At(ctx, failpoint.CheckpointAfter)
	e := Saved{
		Position: s.manifest.position, Name: s.title.String(), Files: len(s.manifest.files),
		Copied: s.copied, Wrote: time.Since(began),
	}
	for _, f := range s.manifest.files {
		e.SizeBytes += f.SizeBytes
	}
	c.tell(e)
	if c.cfg.GroupRank == 0 && !c.cfg.KeepAll {
		if err := c.prune(ctx, s.title); err != nil && ctx.Err() == nil {
			c.tell(PruneFailed{Err: err})
		}
	}
	return nil
}

// write puts the files, and then the manifest.
func (c *Checkpointer) write(ctx context.Context, s *snapshot) error {
	folder := s.title.String() + "/" + s.manifest.at.folder() + "/"
	// A program whose replica ids are not new in each life may have left one here, which
	// says nothing of the files to come.
	if err := c.cfg.Store.Delete(ctx, folder+manifestName); err != nil {
		return err
	}
	files := s.split(c.cfg.MaxFileBytes)
	if len(files) > maxFiles {
		return errTooManyFiles
	}
	for i, state := range files {
		f, err := c.putFile(ctx, folder, fileName(i), state)
		if err != nil {
			return err
		}
		s.manifest.files = append(s.manifest.files, f)
	}
	failpoint.At(ctx, failpoint.CheckpointDuring)
	text, err := s.manifest.encode()
	if err != nil {
		return err
	}
	return c.put(ctx, folder+manifestName, int64(len(text)), bytes.NewReader(text))
}

func (c *Checkpointer) putFile(ctx context.Context, folder, name string, s checkpoint.State) (file, error) {
	r, size, err := safetensors.NewReader(s)
	if err != nil {
		return file{}, err
	}
	sum := sha256.New()
	if err := c.put(ctx, folder+name, size, io.TeeReader(r, sum)); err != nil {
		return file{}, err
	}
	return file{Name: name, SizeBytes: size, SHA256: [sha256.Size]byte(sum.Sum(nil))}, nil
}

// put says why ctx has ended, where a store says only that it has.
func (c *Checkpointer) put(ctx context.Context, name string, size int64, r io.Reader) error {
	err := c.cfg.Store.Put(ctx, name, size, r)
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}
