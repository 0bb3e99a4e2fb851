package ddp

import (
	"time"

	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/pg/debug"
)

// stats are the counts behind Stats.
type stats struct {
	steps, failed int64
	waited, total time.Duration
}

// Stats says what a Reducer did, and how its last step was.
type Stats struct {
	Steps  int64 // that Reduce has ended, discarded ones too
	Failed int64 // of these, by this rank's knowledge
	// Waited is how long the last Reduce took: what did not overlap with the
	// backward pass. WaitedTotal is that of all steps.
	Waited, WaitedTotal time.Duration

	Bytes       int64    // of gradients, in each step
	BucketBytes []int    // of each bucket, in the order in which they start
	Rebuilt     bool     // the buckets follow the order of arrival
	Order       []string // parameters as they became ready in the last step; those that did not, at the end
	Unused      []string // under StaticGraph: those that no step uses
}

// Stats says how it stands, between two steps. It allocates.
// Source: the runtime statistics of DistributedDataParallel at TORCH_DISTRIBUTED_DEBUG=DETAIL.
func (r *Reducer) Stats() Stats {
	s := Stats{
		Steps: r.stats.steps, Failed: r.stats.failed,
		Waited: r.stats.waited, WaitedTotal: r.stats.total, Rebuilt: r.rebuilt,
	}
	for _, b := range r.buckets {
		s.BucketBytes = append(s.BucketBytes, b.flat.NumBytes())
		s.Bytes += int64(b.flat.NumBytes())
	}
	for _, i := range r.step.arrived {
		s.Order = append(s.Order, r.params[i].Name)
	}
	for i, unused := range r.unused {
		if unused {
			s.Unused = append(s.Unused, r.params[i].Name)
		}
	}
	return s
}

// note counts a step that has ended, and tells of it.
func (r *Reducer) note(waited time.Duration) {
	r.stats.steps++
	r.stats.waited = waited
	r.stats.total += waited
	if !r.step.reduced {
		r.stats.failed++
	}
	if r.options.Debug < debug.Detail {
		return
	}
	s := r.Stats()
	r.options.Log.Info().Str(logkey.Component, "ddp").Int64("steps", s.Steps).Bool("failed", !r.step.reduced).
		Int("buckets", len(s.BucketBytes)).Int64(logkey.Bytes, s.Bytes).Dur("waited_ms", waited).
		Bool("rebuilt", s.Rebuilt).Strs("order", s.Order).Msg("gradients reduced")
}

// tellSettings logs what a Reducer was made of.
func (r *Reducer) tellSettings() {
	if r.options.Debug < debug.Info {
		return
	}
	o, s := r.options, r.Stats()
	r.options.Log.Info().Str(logkey.Component, "ddp").Int("params", len(r.params)).Int64(logkey.Bytes, s.Bytes).
		Int("buckets", len(s.BucketBytes)).Int("bucket_bytes", o.BucketBytes).Int("first_bucket_bytes", o.FirstBucketBytes).
		Bool("rebuilds", o.rebuilds()).Bool("find_unused", o.FindUnused).Bool("static_graph", o.StaticGraph).
		Bool("views", o.Views).Type("hook", o.Hook).Msg("reducer made")
}
