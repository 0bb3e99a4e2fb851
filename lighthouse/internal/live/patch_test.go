package live

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skerry-ft/skerry/lighthouse/api"
)

// apply is RFC 7386's MergePatch, line by line.
func apply(target, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	t, ok := target.(map[string]any)
	if !ok {
		t = map[string]any{}
	}
	for name, value := range p {
		if value == nil {
			delete(t, name)
		} else {
			t[name] = apply(t[name], value)
		}
	}
	return t
}

func decoded(t *testing.T, v any) (tree any) {
	t.Helper()
	if err := json.Unmarshal(encoded(v), &tree); err != nil {
		t.Fatal(err)
	}
	return tree
}

// someDocument draws a document of few names and values, so that two of them have much in
// common.
func someDocument(r *rand.Rand) api.Document {
	pick := func(n int) int { return r.IntN(n) }
	d := api.Document{Jobs: map[string]api.JobDocument{}, Servers: map[string]api.ServerFacts{}}
	d.Leader, d.Term = fmt.Sprint("s", pick(2)), uint64(pick(2))
	if pick(2) == 0 {
		d.Refused = []api.RefusedJoin{{ReplicaID: fmt.Sprint(pick(2))}}
	}
	for i := range pick(3) {
		j := api.JobDocument{Replicas: map[string]api.Replica{}}
		j.State, j.MaxStep = fmt.Sprint(pick(2)), int64(pick(2))
		if pick(2) == 0 {
			j.Fell = &api.Cause{Kind: fmt.Sprint(pick(2)), Witnesses: []string{"a", "b"}[:pick(3)]}
		}
		for k := range pick(4) {
			row := api.Replica{ReplicaID: fmt.Sprint(k), State: fmt.Sprint(pick(2)), Behind: int64(pick(2))}
			if pick(2) == 0 {
				row.Heal = &api.Heal{Bytes: int64(pick(2)), From: []string{"x"}, MBPerS: float64(pick(2))}
			}
			j.Replicas[row.ReplicaID] = row
		}
		d.Jobs[fmt.Sprint("j", i)] = j
	}
	for i := range pick(3) {
		d.Servers[fmt.Sprint("s", i)] = api.ServerFacts{Lag: uint64(pick(2)), Leader: pick(2) == 0}
	}
	return d
}

// TestPatchesLeadToTheNewState: what has seen all patches has the state itself, and where
// nothing differs there is none.
func TestPatchesLeadToTheNewState(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(14, 3))
	old := someDocument(r)
	seen := decoded(t, old)
	for i := range 500 {
		now := someDocument(r)
		p := patch(old, now)
		if same := cmp.Equal(decoded(t, old), decoded(t, now)); same != (len(p) == 0) {
			t.Fatalf("%d: states are equal: %v, and the patch is %s", i, same, encoded(p))
		}
		seen = apply(seen, decoded(t, p))
		if d := cmp.Diff(decoded(t, now), seen); d != "" {
			t.Fatalf("%d: after the patch %s (-want +got):\n%s", i, encoded(p), d)
		}
		old = now
	}
}

// TestPatchHasTheChangeAlone: one row of a thousand costs its own size.
func TestPatchHasTheChangeAlone(t *testing.T) {
	t.Parallel()
	crowd := func(changed string) api.Document {
		j := api.JobDocument{Replicas: map[string]api.Replica{}}
		for i := range 1000 {
			id := fmt.Sprint("replica-", i)
			j.Replicas[id] = api.Replica{ReplicaID: id, State: "live"}
		}
		row := j.Replicas[changed]
		row.State = "suspect"
		j.Replicas[changed] = row
		return api.Document{Jobs: map[string]api.JobDocument{"default": j}}
	}
	const want = `{"jobs":{"default":{"replicas":{"replica-17":{"state":"live"},"replica-500":{"state":"suspect"}}}}}`
	if got := string(encoded(patch(crowd("replica-17"), crowd("replica-500")))); got != want {
		t.Errorf("patch %s, want %s", got, want)
	}
}
