package safetensors_test

import (
	"bytes"
	"fmt"

	"github.com/skerry-ft/skerry/checkpoint/safetensors"
	"github.com/skerry-ft/skerry/tensor"
)

func ExampleDecode() {
	var file bytes.Buffer
	saved := []float32{1, 2}
	if err := safetensors.Encode(&file, safetensors.State{Tensors: map[string]tensor.Tensor{"w": tensor.Of(saved)}}); err != nil {
		fmt.Println(err)
		return
	}
	other := make([]float32, 3)
	_, err := safetensors.Decode(&file, safetensors.State{Tensors: map[string]tensor.Tensor{"w": tensor.Of(other)}})
	fmt.Println(err)
	// Output: safetensors: state does not fit: w: want float32[3], got float32[2]
}
