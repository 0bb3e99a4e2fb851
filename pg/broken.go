package pg

// Watched is implemented by backends that tell at once when a group breaks, so
// that nobody has to submit an op to find out.
type Watched interface {
	// Broken is closed once epoch e is broken, or over. For any epoch but that
	// of the last Configure it is closed already. Err then tells why.
	Broken(e Epoch) <-chan struct{}
}

// BrokenOf is the channel of the first backend from b downwards that is
// Watched; nil, which never is ready, if none is.
func BrokenOf(b Backend, e Epoch) <-chan struct{} {
	w, ok := find[Watched](b)
	if !ok {
		return nil
	}
	return w.Broken(e)
}

// Broken is closed once the group, as it is configured now, is broken or was
// configured anew; Err tells why. It is nil, which never is ready, if the
// backend does not tell: then only the next op does.
func (g *Group) Broken() <-chan struct{} {
	current, _ := g.epochs()
	return BrokenOf(g.backend, current)
}

// Broken implements Watched with the first of the backends that is: an op of
// another that fails breaks that one too. Nil if none is.
func (d *Devices) Broken(e Epoch) <-chan struct{} {
	for _, b := range d.backends {
		if broken := BrokenOf(b, e); broken != nil {
			return broken
		}
	}
	return nil
}
