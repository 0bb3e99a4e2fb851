package quorum_test

import (
	"fmt"
	"math/bits"
	"reflect"
	"time"
	"unsafe"

	"github.com/skerry-ft/skerry/quorum"
)

// The explorer visits hundreds of thousands of worlds, each with a real
// Machine inside. It must copy one before every step, and must recognise a
// world that it has seen. Machine has no reason to offer either, so both are
// done here by reflection, unexported fields included, with one small program
// per type so that it is fast. Nothing here knows a field of Machine by name,
// except those in forPeople.

// forPeople names fields that only people read: two worlds that differ in them
// behave alike. They are not hashed.
var forPeople = map[string]bool{
	"History": true, "Reason": true, "Text": true, "Evidence": true, "Data": true,
	"events": true, "CreatedMs": true, "Token": true, "version": true,
	"fellBy": true, "lostWhy": true, "progressAt": true, "openedAt": true, "formed": true, "waitsAt": true,
	// What world keeps beside the machine's own record of the same.
	"LHJoins": true, "Since": true, "Told": true, "Lost": true, "IDs": true,
}

// frozen is an answer as members hold it: never written again, so copies share
// it.
type frozen *quorum.Quorum

var (
	timeType   = reflect.TypeFor[time.Time]()
	frozenType = reflect.TypeFor[frozen]()
	rankType   = reflect.TypeFor[quorum.Rank]()
)

// shared are the types of values that are never written again: copies share them.
var shared = map[reflect.Type]bool{
	frozenType: true, reflect.TypeFor[*quorum.Quorum](): true, reflect.TypeFor[*quorum.Assignment](): true,
}

// ofRank names fields of a Rank that are not hashed: what follows from others, counts
// that only its shell reads, and what is over between two moves.
var ofRank = map[string]bool{
	"cfg": true, "assign": true, "batches": true, "ballots": true, "discarded": true, "attempt": true, "settlement": true,
}

// copier copies values deeply. Pointers that are shared stay shared.
type copier struct {
	seen  map[unsafe.Pointer]unsafe.Pointer
	plans map[reflect.Type]*copyPlan
}

// copyPlan finishes a copy of one type: dst holds the bytes of src already.
// A nil mend says that the bytes are all.
type copyPlan struct{ mend func(dst, src unsafe.Pointer) }

func newCopier() *copier {
	return &copier{seen: map[unsafe.Pointer]unsafe.Pointer{}, plans: map[reflect.Type]*copyPlan{}}
}

// deepCopy returns a copy of *p that shares no memory with it that could be
// written through.
func deepCopy[T any](c *copier, p *T) *T {
	clear(c.seen)
	out := new(T)
	*out = *p
	if mend := c.plan(reflect.TypeFor[T]()).mend; mend != nil {
		mend(unsafe.Pointer(out), unsafe.Pointer(p))
	}
	return out
}

func (c *copier) plan(t reflect.Type) *copyPlan {
	if p, ok := c.plans[t]; ok {
		return p
	}
	p := &copyPlan{}
	c.plans[t] = p // before its parts: types may contain themselves, behind a pointer
	if t == timeType {
		return p
	}
	switch t.Kind() {
	case reflect.Pointer:
		if !shared[t] {
			p.mend = c.pointerPlan(t)
		}
	case reflect.Slice:
		p.mend = c.slicePlan(t)
	case reflect.Map:
		p.mend = c.mapPlan(t)
	case reflect.Struct:
		p.mend = c.structPlan(t)
	case reflect.Array, reflect.Interface, reflect.Func, reflect.Chan:
		if t.Kind() != reflect.Array || !plainElem(t.Elem()) {
			panic(fmt.Sprintf("deepCopy: no plan for %v", t))
		}
	}
	return p
}

func plainElem(t reflect.Type) bool {
	return t.Kind() >= reflect.Bool && t.Kind() <= reflect.Float64
}

// at gives the value of type t at p, free of the mark of unexported fields.
func at(t reflect.Type, p unsafe.Pointer) reflect.Value { return reflect.NewAt(t, p).Elem() }

func (c *copier) pointerPlan(t reflect.Type) func(dst, src unsafe.Pointer) {
	elem := c.plan(t.Elem())
	return func(dst, src unsafe.Pointer) {
		old := *(*unsafe.Pointer)(src)
		if old == nil {
			return
		}
		if done, ok := c.seen[old]; ok {
			*(*unsafe.Pointer)(dst) = done
			return
		}
		fresh := reflect.New(t.Elem())
		fresh.Elem().Set(at(t.Elem(), old))
		c.seen[old] = fresh.UnsafePointer()
		if elem.mend != nil {
			elem.mend(fresh.UnsafePointer(), old)
		}
		*(*unsafe.Pointer)(dst) = fresh.UnsafePointer()
	}
}

func (c *copier) slicePlan(t reflect.Type) func(dst, src unsafe.Pointer) {
	elem, size := c.plan(t.Elem()), t.Elem().Size()
	return func(dst, src unsafe.Pointer) {
		old := at(t, src)
		n := old.Len()
		if old.IsNil() {
			return
		}
		fresh := reflect.MakeSlice(t, n, n)
		reflect.Copy(fresh, old)
		at(t, dst).Set(fresh)
		if elem.mend == nil {
			return
		}
		for i := range n {
			off := uintptr(i) * size
			elem.mend(unsafe.Add(fresh.UnsafePointer(), off), unsafe.Add(old.UnsafePointer(), off))
		}
	}
}

func (c *copier) structPlan(t reflect.Type) func(dst, src unsafe.Pointer) {
	type part struct {
		plan   *copyPlan
		offset uintptr
	}
	var parts []part
	for i := range t.NumField() {
		f := t.Field(i)
		if p := c.plan(f.Type); p.mend != nil || f.Type.Kind() == reflect.Struct && f.Type == t {
			parts = append(parts, part{p, f.Offset})
		}
	}
	if parts == nil {
		return nil
	}
	return func(dst, src unsafe.Pointer) {
		for _, p := range parts {
			p.plan.mend(unsafe.Add(dst, p.offset), unsafe.Add(src, p.offset))
		}
	}
}

func (c *copier) mapPlan(t reflect.Type) func(dst, src unsafe.Pointer) {
	elem := c.plan(t.Elem())
	return func(dst, src unsafe.Pointer) {
		old := at(t, src)
		if old.IsNil() {
			return
		}
		fresh := reflect.MakeMapWithSize(t, old.Len())
		for it := old.MapRange(); it.Next(); {
			v := it.Value()
			if elem.mend != nil {
				s, d := reflect.New(t.Elem()), reflect.New(t.Elem())
				s.Elem().Set(v)
				d.Elem().Set(v)
				elem.mend(d.UnsafePointer(), s.UnsafePointer())
				v = d.Elem()
			}
			fresh.SetMapIndex(it.Key(), v)
		}
		at(t, dst).Set(fresh)
	}
}

// hasher computes canonical keys: times count as ages, maps in any order.
type hasher struct {
	sum   uint64
	now   time.Time
	plans map[reflect.Type]*hashPlan
}

type hashPlan struct {
	add func(k *hasher, p unsafe.Pointer)
}

func newHasher() *hasher { return &hasher{plans: map[reflect.Type]*hashPlan{}} }

// oldAge is the age from which on older makes no difference: it exceeds every
// timeout in use.
const oldAge = 8 * time.Second

// keyOf returns the canonical key of *p at the time now.
func keyOf[T any](k *hasher, p *T, now time.Time) uint64 {
	k.now, k.sum = now, 0x9e3779b97f4a7c15
	k.plan(reflect.TypeFor[T]()).add(k, unsafe.Pointer(p))
	return k.sum
}

func (k *hasher) num(n uint64) {
	hi, lo := bits.Mul64(k.sum^n^0xa0761d6478bd642f, 0xe7037ed1a0b428db^bits.RotateLeft64(k.sum, 23))
	k.sum = hi ^ lo
}

func (k *hasher) str(s string) {
	k.num(uint64(len(s)))
	for len(s) >= 8 {
		k.num(uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56)
		s = s[8:]
	}
	tail := uint64(0)
	for i := range len(s) {
		tail = tail<<8 | uint64(s[i])
	}
	k.num(tail)
}

func (k *hasher) plan(t reflect.Type) *hashPlan {
	if p, ok := k.plans[t]; ok {
		return p
	}
	p := &hashPlan{}
	k.plans[t] = p
	p.add = k.compile(t)
	return p
}

func (k *hasher) compile(t reflect.Type) func(k *hasher, p unsafe.Pointer) {
	switch {
	case t == timeType:
		return hashTime
	case t == frozenType:
		return hashFrozen
	}
	switch t.Kind() {
	case reflect.Bool, reflect.Int8, reflect.Uint8:
		return func(k *hasher, p unsafe.Pointer) { k.num(uint64(*(*uint8)(p))) }
	case reflect.Int16, reflect.Uint16:
		return func(k *hasher, p unsafe.Pointer) { k.num(uint64(*(*uint16)(p))) }
	case reflect.Int32, reflect.Uint32:
		return func(k *hasher, p unsafe.Pointer) { k.num(uint64(*(*uint32)(p))) }
	case reflect.Int, reflect.Uint, reflect.Int64, reflect.Uint64:
		return func(k *hasher, p unsafe.Pointer) { k.num(*(*uint64)(p)) }
	case reflect.String:
		return func(k *hasher, p unsafe.Pointer) { k.str(*(*string)(p)) }
	case reflect.Pointer:
		elem := k.plan(t.Elem())
		return func(k *hasher, p unsafe.Pointer) {
			to := *(*unsafe.Pointer)(p)
			if to == nil {
				k.num(0)
				return
			}
			k.num(1)
			elem.add(k, to)
		}
	case reflect.Slice, reflect.Array:
		return k.compileList(t)
	case reflect.Map:
		return k.compileMap(t)
	case reflect.Struct:
		return k.compileStruct(t)
	}
	panic(fmt.Sprintf("keyOf: no plan for %v", t))
}

// hashFrozen takes of an answer what a member acts on.
func hashFrozen(k *hasher, p unsafe.Pointer) {
	q := *(*frozen)(p)
	if q == nil {
		k.num(0)
		return
	}
	k.num(uint64(q.ID))
	k.num(uint64(q.Round))
	k.num(uint64(q.Settlement.Outcome))
	k.num(uint64(q.Settlement.Step))
	for _, m := range q.Members {
		k.str(string(m.ReplicaID))
		k.num(uint64(m.Position.Step))
		k.num(uint64(m.Position.QuorumID))
	}
	for _, id := range q.Participants {
		k.str(string(id))
	}
}

func hashTime(k *hasher, p unsafe.Pointer) {
	t := *(*time.Time)(p)
	switch age := k.now.Sub(t); {
	case t.IsZero():
		k.num(1 << 62)
	case age > oldAge:
		k.num(1 << 61)
	default:
		k.num(uint64(age))
	}
}

func (k *hasher) compileList(t reflect.Type) func(k *hasher, p unsafe.Pointer) {
	elem, size := k.plan(t.Elem()), t.Elem().Size()
	return func(k *hasher, p unsafe.Pointer) {
		n, first := t.Len, p
		length := 0
		if t.Kind() == reflect.Slice {
			s := *(*[]struct{})(p) // the header is the same for all element types
			length, first = len(s), unsafe.Pointer(unsafe.SliceData(s))
		} else {
			length = n()
		}
		k.num(uint64(length))
		for i := range length {
			elem.add(k, unsafe.Add(first, uintptr(i)*size))
		}
	}
}

func (k *hasher) compileStruct(t reflect.Type) func(k *hasher, p unsafe.Pointer) {
	type part struct {
		plan   *hashPlan
		offset uintptr
	}
	var parts []part
	for i := range t.NumField() {
		f := t.Field(i)
		switch {
		case forPeople[f.Name], t == rankType && ofRank[f.Name]:
		case t == rankType && f.Name == "quorum":
			parts = append(parts, part{k.plan(frozenType), f.Offset})
		default:
			parts = append(parts, part{k.plan(f.Type), f.Offset})
		}
	}
	return func(k *hasher, p unsafe.Pointer) {
		for _, f := range parts {
			f.plan.add(k, unsafe.Add(p, f.offset))
		}
	}
}

func (k *hasher) compileMap(t reflect.Type) func(k *hasher, p unsafe.Pointer) {
	key, elem := k.plan(t.Key()), k.plan(t.Elem())
	kv, ev := reflect.New(t.Key()), reflect.New(t.Elem())
	return func(k *hasher, p unsafe.Pointer) {
		m, outer, all := at(t, p), k.sum, uint64(0)
		for it := m.MapRange(); it.Next(); {
			kv.Elem().SetIterKey(it)
			ev.Elem().SetIterValue(it)
			k.sum = 0x2545f4914f6cdd1d
			key.add(k, kv.UnsafePointer())
			elem.add(k, ev.UnsafePointer())
			all += k.sum
		}
		k.sum = outer
		k.num(uint64(m.Len()))
		k.num(all)
	}
}
