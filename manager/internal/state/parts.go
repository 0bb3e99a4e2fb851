// Package state is the registered parts of a rank's state: it makes one state of them
// for donors, takes in what a heal brings, and sums up what replicas compare at rest. It
// knows nothing of quorums under way, and has no goroutines. Sums and saves call the
// trainer's callbacks, and take their time.
package state

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/checkpoint/safetensors"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/tensor"
)

// Parts are the registered parts of a rank's state. They do not change once
// Run has begun.
type Parts struct {
	parts []part

	saving sync.Mutex // held around every save: those who read take turns
}

type part struct {
	Options

	name string
	save func() checkpoint.State
	load func(checkpoint.State) error
}

// call asks a part for its views.
func (s *Parts) call(p part) checkpoint.State {
	s.saving.Lock()
	defer s.saving.Unlock()
	return p.save()
}

// Options are manager.StateOptions, which has the words.
type Options struct {
	Local    bool
	Volatile bool
	Room     int64
}

// Own is the Manager's own part, which travels as metadata. The position
// is the version's.
type Own struct {
	Batches int64
	Digest  quorum.Digest
}

// The names of the Manager's own metadata. No part can have this prefix.
const (
	ownPrefix  = "skerry/"
	ownBatches = ownPrefix + "batches_committed"
	ownDigest  = ownPrefix + "digest"
)

// Add registers a part. The error names what is wrong with it.
func (s *Parts) Add(
	name string, save func() checkpoint.State, load func(checkpoint.State) error, o Options,
) error {
	switch {
	case name == "" || strings.Contains(name, "/") || name+"/" == ownPrefix:
		return fmt.Errorf("manager: register state %q: want a name without slashes, other than %q",
			name, strings.TrimSuffix(ownPrefix, "/"))
	case save == nil:
		return fmt.Errorf("manager: register state %q: save is nil", name)
	case o.Room < 0 || o.Room > safetensors.MaxStateBytes:
		return fmt.Errorf("manager: register state %q: Room = %d, want 0 to %d", name, o.Room, int64(safetensors.MaxStateBytes))
	case o.Room > 0 && load == nil:
		return fmt.Errorf("manager: register state %q: load is nil, want what takes the tensors for which there is Room", name)
	case s.part(name+"/") != nil:
		return fmt.Errorf("manager: register state %q: registered already, want a name of its own for each part of a Manager's state", name)
	}
	s.parts = append(s.parts, part{Options: o, name: name, save: save, load: load})
	return nil
}

// Empty says that none is registered.
func (s *Parts) Empty() bool { return len(s.parts) == 0 }

// gather makes one state of all parts: views, and of Captured ones what was.
func (s *Parts) gather(of Captured) checkpoint.State {
	all := checkpoint.State{Tensors: make(map[string]tensor.Tensor), Meta: make(map[string]string)}
	for _, p := range s.parts {
		part, ok := of[p.name]
		if !ok {
			part = s.call(p)
		}
		for name, t := range part.Tensors {
			all.Tensors[p.name+"/"+name] = t
		}
		for key, v := range part.Meta {
			all.Meta[p.name+"/"+key] = v
		}
	}
	return all
}

// Save gathers what a donor gives.
func (s *Parts) Save(own Own, of Captured) checkpoint.State {
	all := s.gather(of)
	all.Meta[ownBatches] = strconv.FormatInt(own.Batches, 10)
	if own.Digest.Valid {
		all.Meta[ownDigest] = hex.EncodeToString(binary.BigEndian.AppendUint32(nil, own.Digest.Sum))
	}
	return all
}

// Incoming is what heals have brought of a state, and the tensors that it is for:
// live ones, and copies where the trainer changes those meanwhile. Heals that break
// off leave it to the next one.
type Incoming struct {
	Mirror *checkpoint.Mirror
	made   map[string]int64 // bytes, by tensor that only the donors have
}

// Incoming makes one, empty; see checkpoint.MirrorOptions for overwrite and progress.
func (s *Parts) Incoming(of Captured, overwrite bool, progress func(int64)) (*Incoming, error) {
	in := &Incoming{made: make(map[string]int64)}
	beside, err := of.clone()
	if err != nil {
		return nil, err
	}
	in.Mirror, err = checkpoint.NewMirror(s.gather(beside), checkpoint.MirrorOptions{
		Progress:  progress,
		Overwrite: overwrite,
		Make:      func(t safetensors.TensorInfo) (tensor.Tensor, bool) { return s.makeRoom(in, t) },
		Optional:  func(name string) bool { return s.part(name).Room > 0 },
	})
	return in, err
}

// Install makes v, which has come with meta, the live tensors' bytes, and tells
// the parts. It belongs to the trainer's goroutine.
func (s *Parts) Install(in *Incoming, v checkpoint.Version, meta map[string]string) (Own, error) {
	own, err := ParseOwn(meta)
	if err != nil {
		return own, err
	}
	if err := in.Mirror.Install(v); err != nil {
		return own, err
	}
	came := in.Mirror.Tensors()
	for _, p := range s.parts {
		part := checkpoint.State{Tensors: under(came, p.name+"/"), Meta: under(meta, p.name+"/")}
		if p.Volatile {
			err = s.writeBack(p, part)
		}
		if err == nil && p.load != nil {
			err = p.load(part)
		}
		if err != nil {
			return own, fmt.Errorf("state %q: %w", p.name, err)
		}
	}
	return own, nil
}

// under is what belongs to one part, by its own names.
func under[T any](all map[string]T, prefix string) map[string]T {
	part := make(map[string]T)
	for key, v := range all {
		if name, ok := strings.CutPrefix(key, prefix); ok {
			part[name] = v
		}
	}
	return part
}

// ParseOwn reads the Manager's own part, as a peer sent it.
func ParseOwn(meta map[string]string) (Own, error) {
	var own Own
	n, err := strconv.ParseInt(meta[ownBatches], 10, 64)
	if err != nil || n < 0 {
		return own, fmt.Errorf("%w: %s = %q, want a number >= 0", checkpoint.ErrCorrupt, ownBatches, meta[ownBatches])
	}
	own.Batches = n
	if text := meta[ownDigest]; text != "" {
		b, err := hex.DecodeString(text)
		if err != nil || len(b) != 4 {
			return own, fmt.Errorf("%w: %s = %q, want 8 hexadecimal digits", checkpoint.ErrCorrupt, ownDigest, text)
		}
		own.Digest = quorum.Digest{Valid: true, Sum: binary.BigEndian.Uint32(b)}
	}
	return own, nil
}
