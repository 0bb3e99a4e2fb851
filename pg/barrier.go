package pg

import "context"

// BarrierOptions are what a barrier can be told.
type BarrierOptions struct {
	// DeviceIDs are the devices on which a backend for devices meets the other
	// ranks, as torch's device_ids; empty means its first. Other backends take
	// no notice.
	DeviceIDs []int
}

// BarrierOn is Barrier with options, which are the same on all ranks.
func (g *Group) BarrierOn(ctx context.Context, o BarrierOptions) error {
	return g.run(ctx, g.take(Op{Kind: KindBarrier, DeviceIDs: o.DeviceIDs}))
}
