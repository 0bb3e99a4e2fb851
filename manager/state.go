package manager

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/tensor"
)

// states are the registered parts of a rank's state. They do not change once
// Run has begun.
type states struct {
	parts []statePart

	saving sync.Mutex // held around every save: those who read take turns
}

type statePart struct {
	StateOptions

	name string
	save func() checkpoint.State
	load func(checkpoint.State) error
}

// call asks a part for its views.
func (s *states) call(p statePart) checkpoint.State {
	s.saving.Lock()
	defer s.saving.Unlock()
	return p.save()
}

// ownState is the Manager's own part, which travels as metadata. The position
// is the version's.
type ownState struct {
	batches int64
	digest  quorum.Digest
}

// The names of the Manager's own metadata. No part can have this prefix.
const (
	ownPrefix  = "skerry/"
	ownBatches = ownPrefix + "batches_committed"
	ownDigest  = ownPrefix + "digest"
)

func (s *states) add(
	name string, save func() checkpoint.State, load func(checkpoint.State) error, o StateOptions,
) error {
	switch {
	case name == "" || strings.Contains(name, "/") || name+"/" == ownPrefix:
		return fmt.Errorf("manager: register state %q: want a name without slashes, other than %q",
			name, strings.TrimSuffix(ownPrefix, "/"))
	case save == nil:
		return fmt.Errorf("manager: register state %q: save is nil", name)
	case o.Room < 0 || o.Room > checkpoint.MaxStateBytes:
		return fmt.Errorf("manager: register state %q: Room = %d, want 0 to %d", name, o.Room, int64(checkpoint.MaxStateBytes))
	case o.Room > 0 && load == nil:
		return fmt.Errorf("manager: register state %q: load is nil, want what takes the tensors for which there is Room", name)
	case s.part(name+"/") != nil:
		return fmt.Errorf("manager: register state %q: registered already", name)
	}
	s.parts = append(s.parts, statePart{StateOptions: o, name: name, save: save, load: load})
	return nil
}

// gather makes one state of all parts: views, and of captured ones what was.
func (s *states) gather(of captured) checkpoint.State {
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

// save gathers what a donor gives.
func (s *states) save(own ownState, of captured) checkpoint.State {
	all := s.gather(of)
	all.Meta[ownBatches] = strconv.FormatInt(own.batches, 10)
	if own.digest.Valid {
		all.Meta[ownDigest] = hex.EncodeToString(binary.BigEndian.AppendUint32(nil, own.digest.Sum))
	}
	return all
}

// incoming is what heals have brought of a state, and the tensors that it is for:
// live ones, and copies where the trainer changes those meanwhile. Heals that break
// off leave it to the next one.
type incoming struct {
	mirror *checkpoint.Mirror
	made   map[string]int64 // bytes, by tensor that only the donors have
	stale  bool             // the donors have other tensors by now; guarded by Manager.mu
}

// incoming makes one, empty.
func (s *states) incoming(of captured, progress func(int64)) (*incoming, error) {
	in := &incoming{made: make(map[string]int64)}
	beside, err := of.clone()
	if err != nil {
		return nil, err
	}
	in.mirror, err = checkpoint.NewMirror(s.gather(beside), checkpoint.MirrorOptions{
		Progress: progress,
		Make:     func(t checkpoint.TensorInfo) (tensor.Tensor, bool) { return s.makeRoom(in, t) },
		Optional: func(name string) bool { return s.part(name).Room > 0 },
	})
	return in, err
}

// install makes v, which has come with meta, the live tensors' bytes, and tells
// the parts. It belongs to the trainer's goroutine.
func (s *states) install(in *incoming, v checkpoint.Version, meta map[string]string) (ownState, error) {
	own, err := parseOwn(meta)
	if err != nil {
		return own, err
	}
	if err := in.mirror.Install(v); err != nil {
		return own, err
	}
	came := in.mirror.Tensors()
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

// parseOwn reads the Manager's own part, as a peer sent it.
func parseOwn(meta map[string]string) (ownState, error) {
	var own ownState
	n, err := strconv.ParseInt(meta[ownBatches], 10, 64)
	if err != nil || n < 0 {
		return own, fmt.Errorf("%w: %s = %q, want a number >= 0", checkpoint.ErrCorrupt, ownBatches, meta[ownBatches])
	}
	own.batches = n
	if text := meta[ownDigest]; text != "" {
		b, err := hex.DecodeString(text)
		if err != nil || len(b) != 4 {
			return own, fmt.Errorf("%w: %s = %q, want 8 hexadecimal digits", checkpoint.ErrCorrupt, ownDigest, text)
		}
		own.digest = quorum.Digest{Valid: true, Sum: binary.BigEndian.Uint32(b)}
	}
	return own, nil
}
