package demo

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

// house is one lighthouse.
type house struct {
	worker

	address string
}

// args is what a worker is told.
func (d *demo) args(w *worker) workerArgs {
	a := workerArgs{Demo: d.cfg, Name: w.name}
	for _, h := range d.houses {
		if h.address != "" {
			a.Lighthouses = append(a.Lighthouses, h.address)
		}
	}
	return a
}

// besideFirst is where what only this demo's own processes reach listens: on loopback,
// of IPv6 if that is the first lighthouse's.
func besideFirst(listen string) string {
	host, _, err := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); err == nil && ip.IsLoopback() {
		return net.JoinHostPort(host, "0")
	}
	return "127.0.0.1:0"
}

// startHouses starts the lighthouses, each once the one before has told its
// address, which it joins.
func (d *demo) startHouses(ctx context.Context) error {
	if d.cfg.Lighthouses > 1 {
		dir, err := os.MkdirTemp("", "skerry-demo")
		if err != nil {
			return fmt.Errorf("make a folder for the lighthouses: %w", err)
		}
		d.dataDir = dir
	}
	for i := range d.cfg.Lighthouses {
		h := &house{worker: worker{index: i, name: "lighthouse"}}
		if d.cfg.Lighthouses > 1 {
			h.name = fmt.Sprintf("lighthouse-%d", i)
		}
		h.take = func(e event) { d.takeHouse(h, e) }
		h.ended = func(_ int64, why error) error {
			d.view.note("step %d: %s ended, and not by this demo: %v", d.ledger.steps(), h.name, why)
			d.ledger.houseEnds++
			return d.startHouse(h)
		}
		d.houses = append(d.houses, h)
		if err := d.startHouse(h); err != nil {
			return err
		}
		for h.address == "" {
			select {
			case m := <-d.inbox:
				if err := d.take(ctx, m); err != nil {
					return err
				}
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	d.address = d.houses[0].address
	return nil
}

func (d *demo) startHouse(h *house) error {
	a := d.args(&h.worker)
	switch {
	case h.address != "":
		a.Listen = h.address
	case h.index == 0:
		a.Listen = d.cfg.Listen
	default:
		a.Listen = besideFirst(d.cfg.Listen)
	}
	if d.dataDir != "" {
		a.DataDir = filepath.Join(d.dataDir, strconv.Itoa(h.index))
	}
	return d.spawn(lighthouseWorker, &h.worker, a)
}

func (d *demo) takeHouse(h *house, e event) {
	switch e.Kind {
	case eventListening:
		h.address = e.Address
	case eventLeads:
		if d.leader != nil && d.leader != h {
			d.view.note("step %d: %s leads", d.ledger.steps(), h.name)
		}
		d.leader, h.ends = h, 0
	}
}

// killLeader sends SIGKILL to the lighthouse that leads and starts it again at
// once, with its data. False means that no server is known to lead.
func (d *demo) killLeader() bool {
	h := d.leader
	if h == nil {
		return false
	}
	d.view.note("step %d: SIGKILL to %s, which leads (pid %d)", d.ledger.steps(), h.name, h.proc.PID())
	h.proc.Kill()
	d.ledger.houseKills++
	if err := d.startHouse(h); err != nil {
		d.view.note("%s did not start again: %v", h.name, err)
	}
	return true
}
