package place

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/skerry-ft/skerry/internal/problems"
)

// Env is what a launcher's word is read from.
type Env struct {
	Var      func(name string) string          // a variable; "" if it is not set
	ReadFile func(path string) ([]byte, error) // at most MaxTextBytes
	Hostname func() (string, error)            // as the kernel has it
}

// Process is the Env of this process.
func Process() Env { return Env{Var: os.Getenv, ReadFile: readBounded, Hostname: os.Hostname} }

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was read
	b, err := io.ReadAll(io.LimitReader(f, MaxTextBytes+1))
	if err == nil && len(b) > MaxTextBytes {
		err = fmt.Errorf("%s has more than %d bytes", path, MaxTextBytes)
	}
	return b, err
}

// Launcher reads what one kind of launcher tells the processes that it starts.
type Launcher struct {
	Name string
	// There tells whether such a launcher has started this process.
	There func(e Env) bool
	// Read gives the place that it says, with all its problems joined.
	Read func(e Env) (Place, error)
}

// FromEnv is where this process stands: Find in its own environment, by the caller's
// launchers and then those of Launchers.
func FromEnv(own ...Launcher) (Place, error) { return Find(Process(), own...) }

// Find is where a process with that environment stands. Errors: ErrNotLaunched; those of
// the launcher that is there, and of Place.Validate.
func Find(e Env, own ...Launcher) (Place, error) {
	for _, l := range append(append([]Launcher{}, own...), Launchers()...) {
		if l.There == nil || l.Read == nil || !l.There(e) {
			continue
		}
		p, err := l.Read(e)
		if err != nil {
			return Place{}, fmt.Errorf("place as %s says: %w", l.Name, err)
		}
		p.Launcher = l.Name
		return p.check()
	}
	return Place{}, ErrNotLaunched
}

// Launchers are those that are known, in the order in which Find asks them.
func Launchers() []Launcher {
	return []Launcher{torchrun(), plain(), lsf(), openMPI(), pmi(), slurm(), Kubernetes()}
}

// reader reads variables and notes what is wrong with them.
type reader struct {
	env Env
	bad problems.List
}

// first is the first of some variables that is set, and its name; the first name if none
// is.
func (r *reader) first(names ...string) (name, value string) {
	for _, name = range names {
		if value = r.env.Var(name); value != "" {
			return name, value
		}
	}
	return names[0], ""
}

// number is a variable that must be set: the first of some names.
func (r *reader) number(least, most int, names ...string) int {
	name, value := r.first(names...)
	n, err := strconv.Atoi(value)
	r.bad.Want(err == nil && least <= n && n <= most, name, clip(value), "a number from %d to %d", least, most)
	return n
}

// optional is number for a variable that need not be set.
func (r *reader) optional(otherwise, least, most int, names ...string) int {
	if _, value := r.first(names...); value == "" {
		return otherwise
	}
	return r.number(least, most, names...)
}

// rank is the index of this process in a world, by the names of its variables.
func (r *reader) rank(p *Place, rank string, sizes ...string) {
	p.WorldSize = r.number(1, MaxWorldSize, sizes...)
	p.Rank = r.number(0, max(p.WorldSize, 1)-1, rank)
}

// master fills the master of p: what the variables of torch say, else what else says, "" and
// 0 for nothing.
func (r *reader) master(p *Place, addr string, port int, remedy string) {
	if p.MasterAddr = r.env.Var("MASTER_ADDR"); p.MasterAddr == "" {
		p.MasterAddr = addr
	}
	if port == 0 {
		port = DefaultPort
	}
	p.MasterPort = r.optional(port, 1, 65535, "MASTER_PORT")
	if p.MasterAddr == "" && remedy != "" {
		r.bad.Add(errors.New(remedy))
	} else {
		r.bad.Want(goodHost(p.MasterAddr), "MASTER_ADDR", clip(p.MasterAddr), "the name or address of the host of rank 0")
	}
}

// done is p, or what is wrong.
func (r *reader) done(p Place) (Place, error) {
	if err := r.bad.Err(); err != nil {
		return Place{}, err
	}
	return p, nil
}

// clip shortens a value for an error.
func clip(value string) string {
	const most = 100
	if len(value) <= most {
		return value
	}
	return strings.ToValidUTF8(value[:most], "") + "…"
}

// lastDigits are the last four digits of a job's number, for a port.
func lastDigits(job string) int {
	digits := job
	if at := strings.LastIndexFunc(job, func(c rune) bool { return c < '0' || c > '9' }); at >= 0 {
		digits = job[at+1:]
	}
	n, _ := strconv.Atoi(digits[max(len(digits)-4, 0):]) // digits, or nothing
	return n
}
