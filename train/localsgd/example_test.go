package localsgd_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/dummy"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/localsgd"
	"github.com/skerry-ft/skerry/train/sampler"
)

// Three rounds of DiLoCo, of four inner steps each. A program has a *manager.Manager where
// this example has a stand-in for one whose replica is alone.
func Example() {
	ctx := context.Background()
	group := pg.NewGroup(dummy.New())
	if err := group.Configure(ctx, pg.Config{StoreAddress: "example", ReplicaIDs: []string{"a"}}); err != nil {
		log.Fatal(err)
	}
	m := &fake{group: group}
	weights := []float32{8}
	d, err := localsgd.NewDiLoCo(m, [][]localsgd.Param{{{Name: "weights", Value: tensor.Of(weights)}}}, localsgd.DiLoCoConfig{
		Every: 4, Rounds: 3, Outer: localsgd.SGD{Rate: 0.5},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	for !d.Done() {
		if err := d.Begin(ctx); err != nil {
			log.Fatal(err)
		}
		weights[0]-- // forward, backward, the inner optimizer's step
		committed, err := d.Step(ctx)
		if err != nil {
			log.Fatal(err)
		}
		if committed {
			fmt.Println("round", d.Rounds(), "weights", weights, "sent", d.Sent().Bytes, "bytes")
		}
	}
	// Output:
	// round 1 weights [6] sent 4 bytes
	// round 2 weights [4] sent 4 bytes
	// round 3 weights [2] sent 4 bytes
}

// An elastic sampler in rounds: it deals out all samples of a round at once, of which each inner
// step takes a part. Of ten samples the second round gets the four that are left.
func Example_sampler() {
	ctx := context.Background()
	group := pg.NewGroup(dummy.New())
	if err := group.Configure(ctx, pg.Config{StoreAddress: "example", ReplicaIDs: []string{"a"}}); err != nil {
		log.Fatal(err)
	}
	m := &fake{group: group}
	weights := []float32{0}
	const every, batch = 3, 2
	d, err := localsgd.NewLocalSGD(m, []localsgd.Param{{Name: "weights", Value: tensor.Of(weights)}}, localsgd.Config{Every: every, Rounds: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	s, err := sampler.NewElastic(sampler.ElasticConfig{Samples: 10, Batch: batch * every, InOrder: true})
	if err != nil {
		log.Fatal(err)
	}
	// A program registers s here: m.Register("sampler", s.State, s.Load).
	for !d.Done() {
		if err := d.Begin(ctx); err != nil {
			log.Fatal(err)
		}
		p, err := m.WaitParticipants(ctx)
		if errors.Is(err, manager.ErrStepFailed) {
			err = d.Idle(ctx) // ends the round, which is discarded
			if err == nil {
				continue
			}
		}
		if err != nil {
			log.Fatal(err)
		}
		round := s.Next(sampler.ShareOf(p.Rank, p.Count, 0, 1))
		for t := range every {
			n := len(round.Rows)
			rows := round.Rows[t*n/every : (t+1)*n/every]
			for _, row := range rows { // forward, backward, the inner optimizer's step
				weights[0] += float32(row)
			}
			committed, err := d.Step(ctx)
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println("round", d.Rounds(), "rows", rows)
			if committed {
				s.Commit()
			}
		}
	}
	fmt.Println("weights", weights, "epoch", s.Epoch())
	// Output:
	// round 0 rows [0 1]
	// round 0 rows [2 3]
	// round 1 rows [4 5]
	// round 1 rows [6]
	// round 1 rows [7]
	// round 2 rows [8 9]
	// weights [45] epoch 1
}
