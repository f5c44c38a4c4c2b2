"""What the files of a checkpoint folder are called."""

CONFIG_NAME = "config.json"
MODEL_NAME = "model.safetensors"
MIMI_PATTERN = "tokenizer*.safetensors"
TOKENIZER_PATTERN = "tokenizer*.model"
VOICES_FOLDER = "voices"
VOICES_ARCHIVE = "voices.tgz"
