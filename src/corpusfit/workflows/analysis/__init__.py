"""What users look at beside a selection: explain, audit, clusters, retrieval, tokenizers."""
