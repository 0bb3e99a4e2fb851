package digits

import (
	"context"

	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/ddp"
)

// onDevice are the same parameters, with gradients that the Reducer allocates.
func onDevice(params []ddp.Param) []ddp.Param {
	all := make([]ddp.Param, len(params))
	for i, p := range params {
		all[i] = ddp.Param{Name: p.Name, DType: p.Grad.DType(), Shape: p.Grad.Shape()}
	}
	return all
}

// ready hands a gradient over. A copy to the device that fails is kept for averages: the
// op that would send it starts all the same, since the others wait for it.
func (t *Trainer) ready(i int) {
	if t.cfg.Alloc != nil && t.copied == nil {
		mem, at := t.reducer.Grad(i).Memory()
		t.copied = mem.CopyFromHost(at, tensor.Of(t.model.Params()[i].Grad).Bytes())
	}
	t.reducer.Ready(i)
}

// averages waits for the average gradients, and brings them back from the device.
func (t *Trainer) averages(ctx context.Context) error {
	failed := t.copied
	t.copied = nil
	if err := t.reducer.Reduce(ctx); err != nil || t.cfg.Alloc == nil {
		return err
	}
	for i, p := range t.model.Params() {
		if failed != nil {
			break
		}
		mem, at := t.reducer.Grad(i).Memory()
		failed = mem.CopyToHost(tensor.Of(p.Grad).Bytes(), at)
	}
	if failed != nil {
		t.manager.ReportError(failed) // the step is discarded, by all
	}
	return nil
}
