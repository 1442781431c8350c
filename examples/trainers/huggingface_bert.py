"""A small BERT that reads whether a sequence holds more ones than zeros, kept alive by the Trainer of transformers.

Run it: python examples/trainers/huggingface_bert.py
"""

import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, TrainingArguments

from alive.integrations.huggingface import AliveTrainer, CensusCallback
from alive.integrations.probe import Probe

torch.manual_seed(0)
ids = torch.randint(2, (96, 9))
rows = [{"input_ids": row, "labels": (row.sum() > 4).long()} for row in ids]
config = BertConfig(
    vocab_size=2,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    hidden_act="relu",
    max_position_embeddings=9,
)
model = BertForSequenceClassification(config)
census = CensusCallback(Probe({"input_ids": ids}, every=12))
with tempfile.TemporaryDirectory() as folder:
    args = TrainingArguments(
        folder,
        num_train_epochs=2,
        per_device_train_batch_size=16,
        learning_rate=1e-3,
        logging_steps=6,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = AliveTrainer(model, args, train_dataset=rows, callbacks=[census], alive={"weight": "auto"})
    trainer.train()
told = [row["alive/penalty"] for row in trainer.state.log_history if "alive/penalty" in row]
print(f"penalty {told[0]:.3f} at first, {told[-1]:.3f} at last")
print(f"{census.probe.last.units.dead} of {census.probe.last.units.total} units are dead")
