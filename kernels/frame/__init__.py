"""Operations of a frame around its products: embeddings of the codes, bookkeeping at the end."""
