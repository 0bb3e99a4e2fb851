package digits

// BatchRows is the size of one replica's batch.
const BatchRows = 32
