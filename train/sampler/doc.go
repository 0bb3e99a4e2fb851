// Package sampler says which samples of a dataset a rank reads.
//
// Two samplers share one shuffle:
//
//	Distributed  a fixed number of ranks, as torch.utils.data.DistributedSampler has it
//	Elastic      the replicas of a manager's quorum, which come and go
//
// # Elastic
//
//	s, err := sampler.NewElastic(sampler.ElasticConfig{Samples: 60_000, Batch: 32, Seed: 1})
//	err = m.Register("sampler", s.State, s.Load) // before m.Run
//	…
//	err = m.StartQuorum(ctx)
//	p, err := m.WaitParticipants(ctx)            // in every step
//	step := s.Next(sampler.ShareOf(p.Rank, p.Count, 0, 1))
//	…                                            // learn from step.Rows
//	committed, err := m.ShouldCommit(ctx)
//	if committed { s.Commit() }                  // before the next StartQuorum
//
// An epoch is one walk over all samples, in an order that follows from seed and epoch
// alone. All ranks hold the same cursor into it. A step takes the samples that follow
// the cursor and deals them out to those that take part in it; its commit moves the
// cursor. So, whatever happens to replicas:
//
//   - a step that is discarded moves nothing: its samples are dealt out again, among those
//     that are there by then;
//   - samples of a replica that died are read by the others;
//   - a replica that heals takes over the cursor with the rest of the state, and moves it
//     with the others from then on, also in a step in which it counts for nothing;
//   - a durable checkpoint holds the cursor of its tensors, so that a run that goes on from
//     it reads each sample once more for the model that is in it, and none twice.
//
// In the steps that were committed, every sample of each epoch occurs exactly once.
//
// # Rounds
//
// Next deals out the same samples until Commit, so that in a loop of package localsgd, which commits once
// in many inner steps, it is called once in a round: with Batch, or GlobalBatch, as large as all
// inner steps of a round together, and the loop cuts its share:
//
//	s, err := sampler.NewElastic(sampler.ElasticConfig{Samples: 60_000, Batch: 32 * every, Seed: 1})
//	…
//	err = d.Begin(ctx)                           // d is the localsgd.Averager
//	p, err := m.WaitParticipants(ctx)
//	round := s.Next(sampler.ShareOf(p.Rank, p.Count, 0, 1))
//	for t := range every {
//		n := len(round.Rows)
//		rows := round.Rows[t*n/every : (t+1)*n/every] // maybe none
//		…                                    // the inner step
//		committed, err := d.Step(ctx)        // in the last one of the round
//		if committed { s.Commit() }
//	}
//
// Every is the inner steps of a round: of Config.Every, divided by the fragments. The example of
// package localsgd has the whole loop. Having been dealt out, samples hold a round to who takes part in
// it: if a replica dies among its inner steps the round is made again, where without
// WaitParticipants it would go on.
//
// # Uneven shares
//
// The last step of an epoch has what is left, which is dealt out evenly: shares differ
// by one sample at most, and may be empty. So do those of Config.GlobalBatch, which stays
// whatever the number of replicas is. An average over replicas would then count the
// samples of a small share for more: ddp.Reducer.Weigh weighs each gradient by the
// samples that it is the mean of.
package sampler
