package quant

import (
	"encoding/binary"
	"math"
)

// smallestScale is the smallest normal float32: below it a scale has too few bits.
const smallestScale = 0x1p-126

// codec writes rows in a format, and reads them.
type codec struct {
	format Format
	values [256]float32 // of the codes, before the scale
}

func newCodec(f Format) *codec {
	c := &codec{format: f}
	for i := range c.values {
		c.values[i] = f.value(byte(i))
	}
	return c
}

// value is what a code stands for.
func (f Format) value(code byte) float32 {
	if f == Int8 {
		return float32(int8(code))
	}
	return e4m3Value(code)
}

// most is the largest value.
func (f Format) most() float32 {
	if f == Int8 {
		return 127
	}
	return e4m3Most
}

// encode writes elements to a slot: rows of l.row, as far as there are elements. What is
// left of the slot becomes rows of zeros.
func (c *codec) encode(slot []byte, elements []float32, l layout) {
	scales, codes := slot[:l.per*scaleBytes], slot[l.per*scaleBytes:]
	clear(slot)
	for i := 0; len(elements) > 0; i++ {
		n := min(len(elements), l.row)
		scale := c.encodeRow(codes[i*l.row:i*l.row+n], elements[:n])
		binary.LittleEndian.PutUint32(scales[i*scaleBytes:], math.Float32bits(scale))
		elements = elements[n:]
	}
}

// encodeRow writes the codes of one row, and returns its scale. Codes are zeros.
func (c *codec) encodeRow(codes []byte, row []float32) float32 {
	var bits uint32 // of the largest magnitude: magnitudes are in the order of their bits
	for _, v := range row {
		bits = max(bits, math.Float32bits(v)&^(1<<31))
	}
	if bits >= infinity {
		return notANumber()
	}
	if bits == 0 {
		return 0
	}
	scale := max(math.Float32frombits(bits)/c.format.most(), smallestScale)
	codes = codes[:len(row)]
	if c.format == Int8 {
		for i, v := range row {
			codes[i] = int8Code(v / scale)
		}
		return scale
	}
	for i, v := range row {
		codes[i] = e4m3Code(v / scale)
	}
	return scale
}

// infinity has the bits of one; those of NaNs are above.
const infinity = 0x7f800000

// int8Code is the nearest integer, ties to even, of a v within 127.5 of zero: a float32 of
// this size has no fraction, and its last eight bits are the integer's.
func int8Code(v float32) byte {
	const large = 0x1.8p23
	return byte(math.Float32bits(v + large))
}

// decode calls each with the index and value of every element of a slot, up to n.
func (c *codec) decode(slot []byte, n int, l layout, each func(from int, row []float32)) {
	scales, codes := slot[:l.per*scaleBytes], slot[l.per*scaleBytes:]
	row := make([]float32, min(l.row, n))
	for from := 0; from < n; from += l.row {
		row = row[:min(l.row, n-from)]
		scale := math.Float32frombits(binary.LittleEndian.Uint32(scales[from/l.row*scaleBytes:]))
		if scale-scale != 0 { // one NaN, whatever bits a peer sent
			scale = notANumber()
			for i := range row {
				row[i] = scale
			}
		} else {
			codes := codes[from:][:len(row)]
			for i := range row {
				row[i] = c.values[codes[i]] * scale
			}
		}
		each(from, row)
	}
}

// notANumber is the NaN that all ranks hold: the bits of one that arithmetic makes are
// the processor's business.
func notANumber() float32 { return math.Float32frombits(0x7fc00000) }
