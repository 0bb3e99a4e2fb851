package dist

import (
	"context"
	"fmt"
	"slices"

	"github.com/skerry-ft/skerry/pg"
)

// MaxMeshDims bounds the dimensions of a Mesh.
const MaxMeshDims = 8

// MeshDim is one dimension of a Mesh: its name, and the group of the ranks that
// differ from this process in that dimension only.
type MeshDim struct {
	Name  string
	Group *pg.Group
}

// MeshSize is the name and the length of a dimension that InitMesh makes.
type MeshSize struct {
	Name string
	Size int
}

// Mesh names the dimensions of a grid of processes: "shard" for the ranks that
// hold parts of one copy of a model, "replicate" for those that hold the same
// part of different copies. A verb along a dimension is a verb of its Group.
//
// A dimension can be resizable: a group under pg.Managed, whose size follows the
// quorum. Code that lays out a model over a Mesh wants sizes that stay, so such
// a dimension shows size 1 and rank 0, as a layout with one copy is right for
// any number of them; pg.Managed does the scaling (an average is over those who
// took part). What it is at the moment is for Group(name).Size to say.
//
// A Mesh does not change, and owns nothing. Safe for concurrent use.
type Mesh struct {
	dims []MeshDim
}

// NewMesh makes a Mesh over groups that are there already.
func NewMesh(dims ...MeshDim) (*Mesh, error) {
	if len(dims) == 0 || len(dims) > MaxMeshDims {
		return nil, fmt.Errorf("%w: mesh of %d dimensions, want 1 to %d", pg.ErrInvalidOp, len(dims), MaxMeshDims)
	}
	for i, d := range dims {
		switch {
		case d.Name == "" || d.Group == nil:
			return nil, fmt.Errorf("%w: dimension %d of a mesh, %q, wants a name and a group", pg.ErrInvalidOp, i, d.Name)
		case slices.ContainsFunc(dims[:i], func(e MeshDim) bool { return e.Name == d.Name }):
			return nil, fmt.Errorf("%w: dimension %q of a mesh", pg.ErrNameTaken, d.Name)
		case slices.ContainsFunc(dims[:i], func(e MeshDim) bool { return e.Group == d.Group }):
			return nil, fmt.Errorf("%w: dimension %q of a mesh has the group of another", pg.ErrInvalidOp, d.Name)
		}
	}
	return &Mesh{dims: slices.Clone(dims)}, nil
}

// InitMesh lays the ranks of world out as a grid, in row-major order (the last
// dimension is the one of neighbouring ranks), and makes a subgroup for every
// line of it, with this process's in the Mesh. Every rank of world must call
// it, with the same arguments. The sizes must multiply to world's.
func InitMesh(ctx context.Context, world *pg.Group, sizes []MeshSize, o pg.GroupOptions) (*Mesh, error) {
	var rank, size int
	err := world.Compose(ctx, func(c *pg.Composed) error {
		rank, size = c.Rank(), c.Size()
		return nil
	})
	if err != nil {
		return nil, err
	}
	total := 1
	for _, s := range sizes {
		if s.Size < 1 || s.Size > size {
			return nil, fmt.Errorf("%w: dimension %q of size %d in a mesh of %d ranks", pg.ErrInvalidOp, s.Name, s.Size, size)
		}
		total *= s.Size
	}
	if total != size || o.Name != "" || o.LocalSync {
		return nil, fmt.Errorf("%w: mesh %v of %d ranks over a world of %d; Name and LocalSync are its own",
			pg.ErrInvalidOp, sizes, total, size)
	}
	var dims []MeshDim
	stride := total
	for _, s := range sizes {
		stride /= s.Size
		d := MeshDim{Name: s.Name}
		for first := range total {
			if first/stride%s.Size != 0 {
				continue
			}
			line := make([]int, s.Size)
			for i := range line {
				line[i] = first + i*stride
			}
			g, err := world.NewGroup(ctx, line, o)
			if err != nil {
				return nil, fmt.Errorf("mesh dimension %q: %w", s.Name, err)
			}
			if slices.Contains(line, rank) {
				d.Group = g
			}
		}
		dims = append(dims, d)
	}
	return NewMesh(dims...)
}

// Extend is m with one more dimension at index at: that of a resizable group,
// say, around the groups of one replica.
func (m *Mesh) Extend(d MeshDim, at int) (*Mesh, error) {
	if at < 0 || at > len(m.dims) {
		return nil, fmt.Errorf("%w: extend a mesh of %d dimensions at %d", pg.ErrInvalidOp, len(m.dims), at)
	}
	return NewMesh(slices.Insert(slices.Clone(m.dims), at, d)...)
}

// Sub is the Mesh of some dimensions of m, in the given order.
func (m *Mesh) Sub(names ...string) (*Mesh, error) {
	var dims []MeshDim
	for _, name := range names {
		i, err := m.index(name)
		if err != nil {
			return nil, err
		}
		dims = append(dims, m.dims[i])
	}
	return NewMesh(dims...)
}

// Names are the names of the dimensions, in order.
func (m *Mesh) Names() []string {
	names := make([]string, len(m.dims))
	for i, d := range m.dims {
		names[i] = d.Name
	}
	return names
}

// Group is the group of a dimension; pg.ErrUnknownGroup if there is none of that
// name.
func (m *Mesh) Group(name string) (*pg.Group, error) {
	i, err := m.index(name)
	if err != nil {
		return nil, err
	}
	return m.dims[i].Group, nil
}

// Resizable tells whether a dimension's size follows the quorum.
func (m *Mesh) Resizable(name string) bool {
	i, err := m.index(name)
	return err == nil && m.dims[i].Group.Resizable()
}

// Size is the length of a dimension: 1 for a resizable one, 0 for one that is
// not there.
func (m *Mesh) Size(name string) int {
	i, err := m.index(name)
	if err != nil {
		return 0
	}
	return m.dims[i].size()
}

// Rank is this process's place in a dimension: 0 in a resizable one, -1 in one
// that is not there.
func (m *Mesh) Rank(name string) int {
	i, err := m.index(name)
	if err != nil {
		return -1
	}
	return m.dims[i].rank()
}

// Shape is the lengths of all dimensions.
func (m *Mesh) Shape() []int {
	shape := make([]int, len(m.dims))
	for i := range m.dims {
		shape[i] = m.dims[i].size()
	}
	return shape
}

// Coordinate is this process's place in all dimensions.
func (m *Mesh) Coordinate() []int {
	at := make([]int, len(m.dims))
	for i := range m.dims {
		at[i] = m.dims[i].rank()
	}
	return at
}

// NumRanks is how many processes the Mesh shows: the product of its Shape.
func (m *Mesh) NumRanks() int {
	n := 1
	for i := range m.dims {
		n *= m.dims[i].size()
	}
	return n
}

// String is "mesh replicate=1* shard=2", with a star at what is resizable.
func (m *Mesh) String() string {
	s := "mesh"
	for i := range m.dims {
		s += fmt.Sprintf(" %s=%d", m.dims[i].Name, m.dims[i].size())
		if m.dims[i].Group.Resizable() {
			s += "*"
		}
	}
	return s
}

func (m *Mesh) index(name string) (int, error) {
	i := slices.IndexFunc(m.dims, func(d MeshDim) bool { return d.Name == name })
	if i < 0 {
		return -1, fmt.Errorf("%w: no dimension %q in %v", pg.ErrUnknownGroup, name, m.Names())
	}
	return i, nil
}

func (d *MeshDim) size() int {
	if d.Group.Resizable() {
		return 1
	}
	return d.Group.Size()
}

func (d *MeshDim) rank() int {
	if d.Group.Resizable() {
		return 0
	}
	return d.Group.Rank()
}
