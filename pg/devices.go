package pg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/skerry-ft/skerry/tensor"
)

// DeviceBackend says which backend serves the tensors of a device type.
type DeviceBackend struct {
	Device  tensor.DeviceType
	Backend string // canonical name
}

// deviceTypes are those that a list of backends may name.
func deviceTypes() []tensor.DeviceType {
	return []tensor.DeviceType{tensor.DeviceCPU, tensor.DeviceCUDA}
}

// ParseBackends reads "cpu:tcp,cuda:nccl". Ok is false, without an error, for
// what is simply the name of a backend ("gloo", "baby:tcp").
func ParseBackends(s string) (list []DeviceBackend, ok bool, err error) {
	for i, part := range strings.Split(s, ",") {
		device, name, _ := strings.Cut(strings.TrimSpace(part), ":")
		at := slices.IndexFunc(deviceTypes(), func(t tensor.DeviceType) bool { return t.String() == strings.ToLower(device) })
		if at < 0 || name == "" {
			if i == 0 && !strings.Contains(s, ",") {
				return nil, false, nil
			}
			return nil, false, fmt.Errorf("pg: backends %q: %q is no <device>:<backend>, devices are cpu and cuda", s, part)
		}
		t := deviceTypes()[at]
		if slices.ContainsFunc(list, func(d DeviceBackend) bool { return d.Device == t }) {
			return nil, false, fmt.Errorf("pg: backends %q name %v twice", s, t)
		}
		list = append(list, DeviceBackend{Device: t, Backend: canonical(name)})
	}
	return list, true, nil
}

// DefaultBackends is what Open takes for no name: the usual backend of every
// device, as far as it is registered: "cpu:tcp,cuda:nccl", or one of them, or the
// only backend there is, or nothing.
func DefaultBackends() string {
	var list []string
	for _, usual := range []string{"cpu:tcp", "cuda:nccl"} {
		if Available(usual) {
			list = append(list, usual)
		}
	}
	switch all := Drivers(); {
	case len(list) > 1:
		return strings.Join(list, ",")
	case len(list) == 1:
		_, name, _ := strings.Cut(list[0], ":")
		return name
	case len(all) == 1:
		return all[0].Name
	}
	return ""
}

func openDevices(list []DeviceBackend, o Options) (Backend, error) {
	return newDevices(list, func(i int) (Backend, error) {
		if err := serves(list[i]); err != nil {
			return nil, err
		}
		o := o
		o.Params = paramsOf(list, i, o.Params)
		return openOne(list[i].Backend, o)
	})
}

// paramsOf are the params for the i-th backend of a list: all but those that begin with
// the name of another one and a dot.
func paramsOf(list []DeviceBackend, i int, all map[string]string) map[string]string {
	names := func(d DeviceBackend) []string { return strings.Split(d.Backend, ":") } // "baby:nccl" has two
	own := make(map[string]string, len(all))
	for key, value := range all {
		owner, _, dotted := strings.Cut(key, ".")
		others := slices.ContainsFunc(list, func(d DeviceBackend) bool { return slices.Contains(names(d), owner) })
		if !dotted || !others || slices.Contains(names(list[i]), owner) {
			own[key] = value
		}
	}
	return own
}

// serves checks that a backend was registered for a device.
func serves(entry DeviceBackend) error {
	driver, ok := driverOf(entry.Backend)
	if ok && len(driver.Devices) > 0 && !slices.Contains(driver.Devices, entry.Device.String()) {
		return fmt.Errorf("%w: backend %s serves %s, not %v",
			ErrUnsupported, driver.Name, strings.Join(driver.Devices, ", "), entry.Device)
	}
	return nil
}

// Devices is several backends as one group: an op goes to the one that serves
// its tensors' device. Ops without tensors (a barrier, a ballot) go to the first
// of the list, and so do not order the ops of the others. An error of one
// breaks all. Open makes it of a list such as "cpu:tcp,cuda:nccl".
type Devices struct {
	list     []DeviceBackend
	backends []Backend
	track    tracker
	relays   *Relays[struct{}]
}

// newDevices makes Devices of a list, with what open makes for the i-th entry.
func newDevices(list []DeviceBackend, open func(i int) (Backend, error)) (Backend, error) {
	d := &Devices{list: list}
	for i := range list {
		b, err := open(i)
		if err != nil {
			return nil, errors.Join(err, d.Close())
		}
		d.backends = append(d.backends, b)
	}
	d.relays = NewRelays(d.settle)
	return d, nil
}

// Name is the list that Open took.
func (d *Devices) Name() string {
	var parts []string
	for _, e := range d.list {
		parts = append(parts, e.Device.String()+":"+e.Backend)
	}
	return strings.Join(parts, ",")
}

// Backends are the backends of the devices, in the order of the list.
func (d *Devices) Backends() []Backend { return slices.Clone(d.backends) }

// Config is that of the last Configure that succeeded.
func (d *Devices) Config() (Config, bool) { return d.track.Config() }

func (d *Devices) tracked() *tracker { return &d.track }

// Sibling opens the same list again.
func (d *Devices) Sibling() (Backend, error) {
	return newDevices(d.list, func(i int) (Backend, error) { return siblingOf(d.backends[i], GroupOptions{}) })
}

// Configure configures all, each below a prefix of its own.
func (d *Devices) Configure(ctx context.Context, c Config) error {
	return d.track.configure(ctx, each{d}, c)
}

// each is Devices as its own tracker configures it.
type each struct{ *Devices }

func (e each) Configure(ctx context.Context, c Config) error {
	address := c.StoreAddress
	for i, b := range e.backends {
		c.StoreAddress = address + "/" + e.list[i].Device.String()
		if err := b.Configure(ctx, c); err != nil {
			e.Abort(c.Epoch(), err)
			return fmt.Errorf("configure backend of %v: %w", e.list[i].Device, err)
		}
	}
	return nil
}

// SetRound passes the round on.
func (d *Devices) SetRound(round int64) {
	for _, b := range d.backends {
		setRound(b, round)
	}
}

// Submit starts op on the backend of its tensors' device.
func (d *Devices) Submit(op *Op) *Work {
	if op.Kind == KindBatch && !d.oneDevice(op) {
		return SubmitBatch(d, op)
	}
	r := d.relays.Begin(op)
	work := r.Work()
	b, err := d.backendOf(op)
	if err != nil {
		r.Finish(err)
		return work
	}
	r.Submit(b, *op)
	return work
}

// deviceOf is where the first tensor of op lies; ok is false if it has none.
func deviceOf(op *Op) (t tensor.DeviceType, ok bool) {
	switch {
	case len(op.Batch) > 0 && op.Batch[0] != nil:
		return deviceOf(op.Batch[0])
	case len(op.In) > 0:
		return op.In[0].Device().Type, true
	case len(op.Out) > 0:
		return op.Out[0].Device().Type, true
	}
	return tensor.DeviceCPU, false
}

func (d *Devices) oneDevice(op *Op) bool {
	first, _ := deviceOf(op)
	for _, sub := range op.Batch {
		if sub == nil {
			return true // its backend refuses it
		}
		if t, ok := deviceOf(sub); ok && t != first {
			return false
		}
	}
	return true
}

func (d *Devices) backendOf(op *Op) (Backend, error) {
	t, ok := deviceOf(op)
	if !ok {
		return d.backends[0], nil
	}
	for i, e := range d.list {
		if e.Device == t {
			return d.backends[i], nil
		}
	}
	return nil, fmt.Errorf("%w: %v of a tensor on %v, backends are %s", ErrInvalidOp, op.Kind, t, d.Name())
}

// settle breaks the other backends when an op of one has broken it.
func (d *Devices) settle(r *Relay[struct{}], err error) error {
	if err != nil && !errors.Is(err, ErrInvalidOp) && !errors.Is(err, ErrUnsupported) {
		if first := d.Err(); first != nil {
			current, _ := d.track.epochs()
			d.Abort(current, first)
		}
	}
	return err
}

// Abort aborts all.
func (d *Devices) Abort(e Epoch, cause error) {
	for _, b := range d.backends {
		b.Abort(e, cause)
	}
}

// Err is the first error of any.
func (d *Devices) Err() error {
	for _, b := range d.backends {
		if err := b.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Close closes all.
func (d *Devices) Close() error {
	var errs []error
	for _, b := range d.backends {
		errs = append(errs, b.Close())
	}
	return errors.Join(errs...)
}
