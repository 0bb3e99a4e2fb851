package cluster

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/lighthouse/cluster/internal/datadir"
)

// join returns when this server may take part in raft: it belongs to a cluster,
// and nothing speaks against its data. It returns nil too when ctx ends.
func (n *Node) join(ctx context.Context) error {
	if n.saved().Standing == wire.StandingFounded {
		return n.greet(ctx)
	}
	return n.found(ctx)
}

// found returns when this server belongs to a cluster that exists. What it
// waits for is logged when it changes.
func (n *Node) found(ctx context.Context) error {
	tick := time.NewTicker(introduceEvery)
	defer tick.Stop()
	for {
		if _, err := n.introduce(ctx, n.addresses()); err != nil {
			return err
		}
		done, err := n.decide()
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-n.mu.news:
			if done, err := n.decide(); done || err != nil {
				return err
			}
			if backoff.Sleep(ctx, introduceEvery/10) != nil { // what we decided is told at once, but not in a frenzy
				return nil
			}
		case <-tick.C:
		}
	}
}

// decide takes the next steps towards a cluster. Each is written down before
// it is told.
func (n *Node) decide() (founded bool, err error) {
	for {
		n.mu.Lock()
		b := bootstrap{
			now: time.Now(), self: *n.me(), stands: n.mu.saved.ClusterRecord, expect: n.cfg.Expect,
			words: maps.Clone(n.mu.heard), join: n.cfg.Join, draw: uuid.NewString,
		}
		k, waited := n.mu.saved, n.mu.waits
		n.mu.Unlock()
		next, waits, err := b.next()
		if err != nil {
			return false, err
		}
		changed := next.Standing != k.Standing || next.Cluster != k.Cluster || next.ProposerLost != k.ProposerLost ||
			!slices.Equal(next.Abandoned, k.Abandoned)
		if changed {
			k.ClusterRecord = next
			if err := n.save(k); err != nil {
				return false, err
			}
			n.cfg.Log.Info().Str(logkey.Cluster, next.Cluster).Str("proposer", next.Proposer).
				Msg([]string{"pledge released", "pledged to a cluster", "cluster joined"}[next.Standing])
			n.learnFounders(next.Founders)
		}
		n.mu.Lock()
		n.mu.waits = waits
		n.mu.Unlock()
		if next.Standing == wire.StandingFounded {
			return true, nil
		}
		if waits != waited {
			n.cfg.Log.Info().Str(logkey.Reason, "waiting for "+waits).Msg("cluster awaited")
		}
		if !changed {
			return false, nil
		}
	}
}

// save writes k down, then makes it known.
func (n *Node) save(k datadir.Record) error {
	if err := n.dir.WriteRecord(k); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.saved = k
	return nil
}

// greet asks those whom a server that was in the cluster before knows, before
// it takes part again: whether its raft id is its own, and its data are the
// newest. If they are not, it goes on as a new server.
func (n *Node) greet(ctx context.Context) error {
	for began := time.Now(); ; {
		_, err := n.introduce(ctx, n.addresses())
		if errors.Is(err, datadir.ErrOldCopy) {
			return n.renew(err)
		}
		if !errors.Is(err, errTwice) || time.Since(began) > twiceTimeout {
			return err
		}
		if backoff.Sleep(ctx, introduceEvery) != nil {
			return nil
		}
	}
}

// renew puts the data aside and makes this a new server of the same cluster.
func (n *Node) renew(why error) error {
	k, err := n.dir.SetAside(n.saved(), n.cfg.Log, why)
	if err != nil {
		return err
	}
	id, err := n.dir.RaftID()
	if err != nil {
		return err
	}
	self := *n.me()
	self.RaftID, self.LastIndex = id, 0
	n.who.Store(&self)
	return n.save(k)
}
