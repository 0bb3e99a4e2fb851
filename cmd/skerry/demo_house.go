package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/skerry-ft/skerry/train/spawn"
)

// house is one lighthouse and its process of the moment.
type house struct {
	index      int
	generation int // starts so far
	proc       *spawn.Process
	address    string
}

// houseIndex stands for lighthouse i where others have a replica's index.
func houseIndex(i int) int { return -1 - i }

// houseName is what lighthouse i of n is called.
func houseName(i, n int) string {
	if n == 1 {
		return "lighthouse"
	}
	return fmt.Sprintf("lighthouse-%d", i)
}

// argsFor is what the worker with that index is told.
func (d *demo) argsFor(index int) workerArgs {
	a := workerArgs{Demo: d.cfg}
	for _, h := range d.houses {
		if h.address != "" {
			a.Lighthouses = append(a.Lighthouses, h.address)
		}
	}
	if index >= 0 {
		return a
	}
	h := d.houses[houseIndex(index)]
	a.House, a.Listen = h.index, h.address
	switch {
	case a.Listen != "":
	case h.index == 0:
		a.Listen = d.cfg.Listen
	default:
		a.Listen = besideFirst(d.cfg.Listen)
	}
	if d.dataDir != "" {
		a.DataDir = filepath.Join(d.dataDir, strconv.Itoa(h.index))
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
		h := &house{index: i}
		d.houses = append(d.houses, h)
		if err := d.startHouse(h); err != nil {
			return err
		}
		for h.address == "" {
			select {
			case m := <-d.inbox:
				if err := d.take(m); err != nil {
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
	h.generation++
	var err error
	h.proc, err = d.spawn(lighthouseWorker, houseIndex(h.index), h.generation)
	return err
}

func (d *demo) takeHouse(m message) error {
	h := d.houses[houseIndex(m.index)]
	if m.generation != h.generation {
		return nil // of one that was killed
	}
	switch {
	case m.exited:
		return fmt.Errorf("%s ended by itself: %w", houseName(h.index, d.cfg.Lighthouses), endOf(m.err))
	case m.event.Kind == eventFailed:
		return fmt.Errorf("%s: %s", houseName(h.index, d.cfg.Lighthouses), m.event.Text)
	case m.event.Kind == eventListening:
		h.address = m.event.Address
	case m.event.Kind == eventLeads:
		if d.leader != nil && d.leader != h {
			d.view.note("step %d: %s leads", d.ledger.steps(), houseName(h.index, d.cfg.Lighthouses))
		}
		d.leader = h
	}
	return nil
}

// killLeader sends SIGKILL to the lighthouse that leads and starts it again at
// once, with its data. False means that nobody is known to lead.
func (d *demo) killLeader() bool {
	h := d.leader
	if h == nil {
		return false
	}
	d.view.note("step %d: SIGKILL to %s, which leads (pid %d)", d.ledger.steps(), houseName(h.index, d.cfg.Lighthouses), h.proc.PID())
	h.proc.Kill()
	d.ledger.houseKills++
	if err := d.startHouse(h); err != nil {
		d.view.note("%s did not start again: %v", houseName(h.index, d.cfg.Lighthouses), err)
	}
	return true
}
