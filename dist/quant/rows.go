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

// code is the nearest code, ties to even; what is beyond the largest is the largest.
func (f Format) code(v float32) byte {
	if f == Int8 {
		return byte(int8(math.RoundToEven(float64(min(max(v, -127), 127)))))
	}
	return e4m3Code(v)
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
	var most float32
	for _, v := range row {
		if v-v != 0 { // NaN or infinite
			return notANumber()
		}
		most = max(most, float32(math.Abs(float64(v))))
	}
	if most == 0 {
		return 0
	}
	scale := max(most/c.format.most(), smallestScale)
	for i, v := range row {
		codes[i] = c.format.code(v / scale)
	}
	return scale
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
			for i, code := range codes[from : from+len(row)] {
				row[i] = c.values[code] * scale
			}
		}
		each(from, row)
	}
}

// notANumber is the NaN that all ranks hold: the bits of one that arithmetic makes are
// the processor's business.
func notANumber() float32 { return math.Float32frombits(0x7fc00000) }
