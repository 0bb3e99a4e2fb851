package digits

import (
	"math"
	"testing"
)

func load(t *testing.T) (train, test *Dataset) {
	t.Helper()
	train, test, err := Load(1)
	if err != nil {
		t.Fatal(err)
	}
	return train, test
}

func TestLoadSplits(t *testing.T) {
	t.Parallel()
	train, test := load(t)
	if train.Len() != 1437 || test.Len() != 360 {
		t.Errorf("split %d and %d rows, want 1437 and 360", train.Len(), test.Len())
	}
	again, _ := load(t)
	other, _, err := Load(2)
	if err != nil {
		t.Fatal(err)
	}
	if same(train, again) == false || same(train, other) {
		t.Error("the split must depend on the seed and on nothing else")
	}
}

func same(a, b *Dataset) bool {
	for i, l := range a.Labels {
		if b.Labels[i] != l {
			return false
		}
	}
	return true
}

func TestBatchesStayInTheirShard(t *testing.T) {
	t.Parallel()
	train, _ := load(t)
	mark := &Dataset{Images: make([]float32, train.Len()*Pixels), Labels: make([]int, train.Len())}
	for i := range mark.Labels {
		mark.Labels[i] = i // so that a batch tells which rows it took
	}
	const shards = 4
	seen := make(map[int]int)
	for index := range shards {
		for step := range int64(200) {
			for _, row := range mark.Batch(1, step, Shard{index, shards}, 32).Labels {
				if row%shards != index {
					t.Fatalf("shard %d took row %d", index, row)
				}
				seen[row]++
			}
		}
	}
	if len(seen) < train.Len()*99/100 {
		t.Errorf("200 steps of all shards saw %d of %d rows", len(seen), train.Len())
	}
}

// TestGradients compares the backward pass with differences of the loss.
func TestGradients(t *testing.T) {
	t.Parallel()
	train, _ := load(t)
	batch := train.Batch(1, 0, Shard{0, 1}, 8)
	m := NewModel(3)
	m.Learn(batch, nil)
	scratch := NewModel(3)
	loss := func() float64 { return scratch.Learn(batch, nil) }
	for pi, p := range m.Params() {
		for i := 0; i < len(p.Value); i += max(1, len(p.Value)/23) {
			const h = 1e-2
			v := scratch.Params()[pi].Value
			was := v[i]
			v[i] = was + h
			up := loss()
			v[i] = was - h
			down := loss()
			v[i] = was
			if want, got := (up-down)/(2*h), float64(p.Grad[i]); math.Abs(want-got) > 2e-3+0.02*math.Abs(want) {
				t.Errorf("%s[%d]: gradient %v, differences say %v", p.Name, i, got, want)
			}
		}
	}
}

func TestReadyNamesEveryParameterOnce(t *testing.T) {
	t.Parallel()
	train, _ := load(t)
	m := NewModel(1)
	got := map[int]int{}
	m.Learn(train.Batch(1, 0, Shard{0, 1}, 4), func(i int) { got[i]++ })
	for i := range m.Params() {
		if got[i] != 1 {
			t.Errorf("parameter %d was ready %d times, want once", i, got[i])
		}
	}
}

// train runs replicas shards in one process with averaged gradients, in the
// order in which the process groups fold them.
func train(t *testing.T, seed uint64, replicas int, steps int64) (*Model, *Dataset) {
	t.Helper()
	rows, test, err := Load(seed)
	if err != nil {
		t.Fatal(err)
	}
	m := NewModel(seed)
	opt := NewSGD(m.Params(), steps)
	for step := range steps {
		opt.ZeroGrad()
		for r := range replicas {
			m.Learn(rows.Batch(seed, step, Shard{r, replicas}, BatchRows), nil)
		}
		for _, p := range m.Params() {
			for i := range p.Grad {
				p.Grad[i] /= float32(replicas)
			}
		}
		opt.Step()
	}
	return m, test
}

func TestAccuracyAfter600Steps(t *testing.T) {
	t.Parallel()
	steps, want := int64(600), 0.95
	if testing.Short() {
		steps, want = 100, 0.85
	}
	m, test := train(t, 1, 4, steps)
	if got := m.Accuracy(test); got < want {
		t.Errorf("test accuracy %.4f after %d steps, want %v or more", got, steps, want)
	}
}

func TestTrainingRepeatsBitForBit(t *testing.T) {
	t.Parallel()
	a, _ := train(t, 5, 2, 20)
	b, _ := train(t, 5, 2, 20)
	c, _ := train(t, 6, 2, 20)
	if a.Hash() != b.Hash() {
		t.Error("two runs of one seed differ")
	}
	if a.Hash() == c.Hash() {
		t.Error("runs of two seeds are equal")
	}
}
