package pg

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/pg/netif"
)

// Options is what every backend can be opened with. Params holds what only one
// of them knows, by the backend's own names.
type Options struct {
	Log    zerolog.Logger
	Listen string // host:port for the data plane; empty: the backend's default
	// Params are a backend's own. Of a list of backends each has all but those that begin
	// with another one's name and a dot: "nccl.device" is not tcp's.
	Params map[string]string

	// Interfaces are the network interfaces of the data plane, as netif.Addrs
	// takes them: names or prefixes. A backend with several streams uses them
	// in turn, any other the first. If Listen is empty, Open sets it to the
	// address of the first. Empty means the backend's default.
	Interfaces []string

	// Open lets other hosts reach a data plane that no Config.Token guards. Off, a
	// backend of ours refuses to be configured like that.
	Open bool
}

// Factory makes an unconfigured backend. It starts nothing.
type Factory func(Options) (Backend, error)

// Driver is a registered backend.
type Driver struct {
	Name    string // lower case
	Devices []string
	open    Factory
}

// registry is the one mutable state of this package: who registers and who
// opens do not know each other.
var registry struct {
	sync.Mutex

	drivers map[string]Driver
}

// aliases are names that users of torch know.
func canonical(name string) string {
	name = strings.ToLower(name)
	if name == "gloo" {
		return "tcp"
	}
	return name
}

// Register makes a backend known by name, without regard to case, for the
// device types it serves ("cpu", "cuda"). Main packages call it once per
// backend. A name that is taken is an error; "gloo" means "tcp".
func Register(name string, devices []string, f Factory) error {
	name = canonical(name)
	if name == "" || f == nil {
		return fmt.Errorf("pg: register backend %q: want a name and a factory", name)
	}
	registry.Lock()
	defer registry.Unlock()
	if _, taken := registry.drivers[name]; taken {
		return fmt.Errorf("pg: backend %q is registered already", name)
	}
	if registry.drivers == nil {
		registry.drivers = make(map[string]Driver)
	}
	registry.drivers[name] = Driver{Name: name, Devices: slices.Clone(devices), open: f}
	return nil
}

// Available tells whether a backend of that name is registered; of a list for
// devices, whether all of them are.
func Available(name string) bool {
	if byDevice, ok, err := ParseBackends(name); ok || err != nil {
		return err == nil && !slices.ContainsFunc(byDevice, func(d DeviceBackend) bool { return !Available(d.Backend) })
	}
	_, ok := driverOf(name)
	return ok
}

// driverOf is the registered backend of a name.
func driverOf(name string) (Driver, bool) {
	registry.Lock()
	defer registry.Unlock()
	d, ok := registry.drivers[canonical(name)]
	return d, ok
}

// Drivers lists the registered backends by name.
func Drivers() []Driver {
	registry.Lock()
	defer registry.Unlock()
	return slices.SortedFunc(maps.Values(registry.drivers), func(a, b Driver) int { return cmp.Compare(a.Name, b.Name) })
}

// Open makes an unconfigured backend by name, or one that serves several
// devices by a list of them: "cpu:tcp,cuda:nccl"; see ParseBackends. The empty
// name means the default of every device that has one: DefaultBackends.
func Open(name string, o Options) (Backend, error) {
	if name == "" {
		if name = DefaultBackends(); name == "" {
			return nil, errors.New("pg: no backend is registered" + registerFirst)
		}
	}
	if byDevice, ok, err := ParseBackends(name); ok || err != nil {
		if err != nil {
			return nil, err
		}
		return openDevices(byDevice, o)
	}
	return openOne(name, o)
}

// registerFirst ends the error of a program that forgot to.
const registerFirst = "; main registers those that it wants, as tcp.Register() does"

func openOne(name string, o Options) (Backend, error) {
	d, ok := driverOf(name)
	if !ok {
		var known []string
		for _, other := range Drivers() {
			known = append(known, other.Name)
		}
		return nil, fmt.Errorf("pg: no backend %q, registered: %s"+registerFirst, name, cmp.Or(strings.Join(known, ", "), "none"))
	}
	if o.Listen == "" && len(o.Interfaces) > 0 {
		ips, err := netif.Addrs(o.Interfaces)
		if err != nil {
			return nil, fmt.Errorf("open backend %s: %w", d.Name, err)
		}
		o.Listen = ips[0].String()
	}
	b, err := d.open(o)
	if err != nil {
		return nil, fmt.Errorf("open backend %s: %w", d.Name, err)
	}
	return b, nil
}
