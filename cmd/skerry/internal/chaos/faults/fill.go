package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Sizes of what is asked for at a time: the first, and the one at which a folder is full.
const (
	firstChunk = 64 << 20
	lastChunk  = 4 << 10
)

// Full is a folder that is filled.
type Full struct {
	// Bytes is how much was put into it.
	Bytes int64
	// Whole says that nothing more fits.
	Whole bool

	file *os.File
}

// errReserve says what to do where room can only be taken by writing it.
var errReserve = errors.New("its file system cannot reserve room, and to write until nothing more fits may take hours: give a bound by --disk-mib")

// Fill puts up to limit bytes into a folder, or as many as fit if limit is 0. End must be
// called; the end of this process does the same. The end of ctx gives back what was taken.
func Fill(ctx context.Context, dir string, limit int64) (*Full, error) {
	f, err := os.CreateTemp(dir, ".skerry-chaos-")
	if err != nil {
		return nil, fmt.Errorf("fill a folder: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(fmt.Errorf("fill a folder: %w", err), f.Close())
	}
	full := &Full{file: f}
	for chunk := int64(firstChunk); limit == 0 || full.Bytes < limit; {
		if limit > 0 {
			chunk = min(chunk, limit-full.Bytes)
		}
		err := reserve(f, full.Bytes, chunk)
		if errors.Is(err, errors.ErrUnsupported) {
			if err = errReserve; limit > 0 {
				err = zeros(ctx, f, full.Bytes, chunk)
			}
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		switch {
		case err == nil:
			full.Bytes += chunk
		case !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT):
			return nil, errors.Join(fmt.Errorf("fill %s: %w", dir, err), full.End())
		case chunk <= lastChunk:
			full.Whole = true
			return full, nil
		default:
			chunk = max(chunk/4, lastChunk)
		}
	}
	return full, nil
}

// End gives the room back. It is cut before it is closed: a process that was forked at this moment
// has the file open too, until it executes its program.
func (f *Full) End() error { return errors.Join(f.file.Truncate(0), f.file.Close()) }

// zeros writes zeros, where a file system can reserve nothing.
func zeros(ctx context.Context, f *os.File, at, size int64) error {
	buf := make([]byte, min(size, 1<<20))
	for done := int64(0); done < size; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := f.WriteAt(buf[:min(int64(len(buf)), size-done)], at+done)
		if err != nil {
			return err
		}
		done += int64(n)
	}
	return nil
}
